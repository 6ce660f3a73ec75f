"""No object of ours changes its own input: a second reconcile of the same world writes nothing, whatever the phase."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edl.api.kubernetes import timestamp
from edl.api.status import JobProgress, RootCause
from edl.jobs.core.grant import Grant
from edl.jobs.core.outcome import Refusal
from tests.jobs.easydl.world import EasydlWorld, easydl, role
from tests.jobs.pytorch.world import PytorchWorld, elastic
from tests.jobs.world import World, manifest

CODES = st.sampled_from([0, 1, 9, 137])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("end"), st.integers(0, 9), CODES),
        st.tuples(st.just("reconcile"), st.just(0), st.just(0)),
        st.tuples(st.just("run"), st.just(0), st.just(0)),
        st.tuples(st.just("wait"), st.sampled_from([1, 5, 60, 700]), st.just(0)),
        st.tuples(st.just("suspend"), st.booleans().map(int), st.just(0)),
        st.tuples(st.just("grant"), st.integers(0, 4), st.just(0)),
        st.tuples(st.just("unready"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("evict"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("delete"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("refused edit"), st.just(0), st.just(0)),
        st.tuples(st.just("refused pod"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("idle"), st.sampled_from([1, 700]), st.just(0)),
        st.tuples(st.just("silent"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("hopeless"), st.just(0), CODES),
        st.tuples(st.just("state"), st.integers(0, 2), st.just(0)),
        st.tuples(st.just("progress"), st.integers(0, 9), st.just(0)),
    ),
    max_size=25,
)


def training_world(limit: int) -> World:
    job = manifest(backoff_limit=limit)
    job["metadata"]["annotations"] = {"edl.dev/restored-from": "uid-0"}
    world = World(job)
    world.grant = Grant(3, "Started", "there is room")
    return world


def pytorch_world(limit: int) -> World:
    world = PytorchWorld(elastic(backoffLimit=limit))
    world.grant = Grant(3, "Started", "there is room")
    return world


def easydl_world(limit: int) -> World:
    roles: dict[str, Any] = easydl()["spec"]
    for one in roles.values():
        one["restartCount"] = limit
    world = EasydlWorld(easydl(**roles))
    world.planned(2, parameter_server=role(2), worker=role(2))
    return world


WORLDS = {"training": training_world, "pytorch": pytorch_world, "easydl": easydl_world}


def rests(world: World) -> None:
    """A status that counts something again at each reconcile never settles."""
    world.settle()
    assert world.job is None or not world.step(), world.writes[-5:]


@pytest.mark.case("acceptance-1")
@pytest.mark.parametrize("kind", WORLDS)
@settings(max_examples=60)
@given(limit=st.integers(0, 2), steps=STEPS)
def test_whatever_pods_do_it_comes_to_rest(kind: str, limit: int, steps: list[tuple[str, int, int]]) -> None:
    world = WORLDS[kind](limit)
    for name, number, code in steps:
        if world.job is None:
            return
        pods = [name for name in world.names("Pod") if world.objects["Pod", name].get("status", {}).get("phase")]
        if name == "end" and pods:
            world.end(pods[number % len(pods)], code)
        elif name == "reconcile":
            world.step()
        elif name == "run":
            world.run_all()
        elif name == "wait":
            world.now += number
        elif not report(world, name, number, code):
            disturb(world, kind, name, number, pods)
    rests(world)


def report(world: World, name: str, number: int, code: int) -> bool:
    """What the API server and the job service tell of a job."""
    pods = world.names("Pod")
    if name == "refused pod":
        names = [f"j-{one}" for one in range(number)]
        world.refusals = tuple(Refusal("Pod", one, "Forbidden", "violates", retry_at=world.now + 1) for one in names)
    elif name == "idle":
        world.idle = number
    elif name == "silent":
        world.silence = {pods[number % len(pods)]: 700.0} if pods else {}
    elif name == "hopeless":
        world.hopeless = RootCause(pod="j-worker-0", exit_code=code, message="no such module")
    elif name == "state":
        world.state_wait = (None, "", "ConfigMap ns/j-tj-state is missing")[number]
    elif name == "progress":
        world.progress = JobProgress(shown=f"{number}0%", done=number, total=10)
    else:
        return False
    return True


REFUSED: dict[str, Any] = {
    "training": {"port": 9000},
    "pytorch": {"rdzvEndpoint": "other:1"},
    "easydl": {"distributionStrategy": "ring-allreduce"},
}


def disturb(world: World, kind: str, name: str, number: int, pods: list[str]) -> None:
    pod = pods[number % len(pods)] if pods else ""
    if name == "suspend":
        world.edit(lambda spec: spec.update(suspend=bool(number)))
    elif name == "refused edit":
        world.edit(lambda spec: spec.update(REFUSED[kind]))
    elif name == "grant" and world.grant is not None:
        code = "Started" if number else "NoRoom"
        world.grant = msgspec.structs.replace(world.grant, target=number, code=code, message=f"room for {number}")
    elif name == "unready" and pod:
        world.set_status(pod, "Running", {"running": {"startedAt": timestamp.text(world.now)}})
    elif name == "evict" and pod:
        world.set_status(pod, "Failed", {}, reason="Evicted")
    elif name == "delete" and pod:
        world.lose(pod)


@pytest.mark.case("acceptance-1")
@pytest.mark.parametrize("kind", WORLDS)
def test_pods_that_die_after_the_end_count_once(kind: str) -> None:
    """Two that fail a moment apart: the first ends the job, the other is seen dead after it."""
    world = WORLDS[kind](0)
    world.live()
    worker = "trainer" if kind == "training" else "worker"
    first, second, *_ = sorted(world.pods("ps") + world.pods(worker)) if kind == "easydl" else world.pods(worker)
    world.end(first, 1)
    world.step()
    world.end(second, 1)
    rests(world)
