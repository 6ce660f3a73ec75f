"""Master, parameter servers and etcd that crash again and again: not active, not ready, in the end the job's end."""

from typing import Any

import pytest

from edl.api.kubernetes import timestamp
from edl.jobs.core.grant import Grant
from tests.jobs.training.test_reconcile import role, running
from tests.jobs.world import World, manifest

ROLES = ("master", "pserver", "etcd")


def crash(world: World, name: str, times: int, *, code: int = 9, ran: float = 1.0, words: str = "no such file") -> None:
    """Its container has ended `times` times, the last time a moment ago; its node waits with the next start."""
    last = ended(world, code, ran, words)
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": f"back-off {10 * times}s restarting"}}
    _containers(world, name, waiting, times - 1, last)


def come_back(world: World, name: str, restarts: int, *, code: int = 9, ran: float = 1.0) -> None:
    _containers(world, name, {"running": {"startedAt": timestamp.text(world.now)}}, restarts, ended(world, code, ran))


def ended(world: World, code: int, ran: float, words: str = "") -> dict[str, Any]:
    times = {"startedAt": timestamp.text(world.now - ran), "finishedAt": timestamp.text(world.now)}
    return {"terminated": {"exitCode": code, "reason": "Error", "message": words, **times}}


def _containers(world: World, name: str, state: dict[str, Any], restarts: int, last: dict[str, Any]) -> None:
    container = world.objects["Pod", name]["spec"]["containers"][0]["name"]
    status = {"name": container, "state": state, "lastState": last, "restartCount": restarts}
    world.set_status(name, "Running", state, ready="running" in state, containerStatuses=[status])


def ready(world: World) -> tuple[str, str, str]:
    found = world.condition("Ready")
    assert found is not None
    return found["status"], found["reason"], found.get("message", "")


@pytest.mark.case("acceptance-6")
@pytest.mark.parametrize("name", ROLES)
def test_a_server_that_crashes_is_not_active_and_the_job_is_not_ready(name: str) -> None:
    world = World(manifest(etcd={}))
    world.grant = Grant(2)
    world.settle()
    victim = world.pods(name)[0]
    for pod in world.names("Pod"):
        if pod != victim:
            world.run(pod)
    crash(world, victim, 1)
    world.settle()
    assert role(world, name)["pending"] == 1
    assert world.status["phase"] == "creating"
    assert ready(world) == ("False", "CrashLoopBackOff", f"pod {victim}: CrashLoopBackOff: exit code 9: no such file")


@pytest.mark.case("acceptance-6")
@pytest.mark.parametrize("name", ROLES)
def test_a_server_that_crashes_again_and_again_fails_the_job_with_its_cause(name: str) -> None:
    world = running(etcd={}, backoff_limit=3, fault_tolerant=False)
    victim = world.pods(name)[0]
    for times in (1, 2):
        crash(world, victim, times)
        world.settle()
        assert world.status["phase"] == "running"
        assert ready(world)[0] == "False"
    crash(world, victim, 3)
    world.live()
    assert world.status["phase"] == "failed"
    assert world.status["reason"] == f"{name} {victim} failed 3 times: exit code 9: no such file"
    assert world.status["root_cause"] == {"pod": victim, "exit_code": 9, "message": "no such file"}
    failed = world.condition("Failed")
    assert failed is not None
    assert failed["reason"] == f"{name.capitalize()}Failed"
    assert world.pods() == world.pods(name) == []
    assert not world.step()


def test_a_moment_between_two_crashes_is_no_news() -> None:
    world = running()
    victim = world.pods("pserver")[0]
    crash(world, victim, 2)
    world.settle()
    come_back(world, victim, 2)
    assert not world.step(), "it crashed as soon as it had started, and will again"
    assert world.reconcile().requeue_at == world.now + 10
    world.now += 10
    world.settle()
    assert (ready(world)[0], role(world, "pserver")["active"]) == ("True", 2)


def test_a_server_that_served_for_a_while_counts_as_soon_as_it_is_back() -> None:
    world = running()
    victim = world.pods("pserver")[0]
    come_back(world, victim, 1, code=137, ran=60)
    world.settle()
    assert (ready(world)[0], role(world, "pserver")["active"]) == ("True", 2)


def test_ten_minutes_of_service_start_the_count_anew() -> None:
    world = running(backoff_limit=3)
    victim = world.pods("master")[0]
    crash(world, victim, 2)
    world.settle()
    come_back(world, victim, 2)
    world.settle()
    world.now += 10
    world.settle()
    assert world.reconcile().requeue_at == world.now + 590
    world.now += 590
    world.live()
    assert not world.step()
    for times in (3, 4):
        crash(world, victim, times)
        world.settle()
        assert world.status["phase"] == "running", "nobody but the status remembers the two before"
    crash(world, victim, 5)
    world.settle()
    assert world.status["phase"] == "failed"


def test_a_crash_after_long_service_is_the_first_of_its_row() -> None:
    """Nobody looked in the ten minutes: the operator was away."""
    world = running(backoff_limit=2)
    victim = world.pods("master")[0]
    crash(world, victim, 9, ran=700)
    world.settle()
    assert world.status["phase"] == "running"
    crash(world, victim, 10)
    world.settle()
    assert world.status["phase"] == "failed"


def test_a_new_pod_in_the_place_of_a_server_begins_with_nothing() -> None:
    world = running(backoff_limit=2)
    victim = world.pods("pserver")[0]
    crash(world, victim, 1)
    world.settle()
    world.lose(victim)
    world.live()
    crash(world, world.pods("pserver")[-1], 1)
    world.settle()
    assert world.status["phase"] == "running"


@pytest.mark.case("acceptance-6")
@pytest.mark.parametrize("name", ["pserver", "trainer"])
def test_ready_means_ready_and_not_only_running(name: str) -> None:
    world = running()
    victim = world.pods(name)[0]
    state = world.objects["Pod", victim]["status"]["containerStatuses"][0]["state"]
    world.set_status(victim, "Running", state, ready=False)
    world.settle()
    assert ready(world)[:2] == ("False", "NotReady")
    assert (world.status["phase"], role(world, name)["active"]) == ("running", 2)
