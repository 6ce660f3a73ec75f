"""A job that is over claims no size: nothing runs, nothing is granted, and the reason says how and why it ended."""

import pytest

from edl.cli.connect.jobs import JobSummary, summarize
from tests.jobs.test_refused_edits import WORLDS
from tests.jobs.world import World

FIELDS = {"training": "scale_status", "pytorch": "scale", "easydl": "scale"}
FAILED = {
    "training": "trainer j-trainer-0 failed: exit code 3: no data",
    "pytorch": "worker j-worker-0 failed: exit code 3: no data",
    "easydl": "ps j-ps-0 failed: exit code 3: no data",
}
VICTIMS = {"training": "j-trainer-0", "pytorch": "j-worker-0", "easydl": "j-ps-0"}
FATAL = {
    "training": lambda spec: spec.update(fault_tolerant=False),
    "pytorch": lambda spec: spec["replicaSpecs"]["Worker"].update(restartPolicy="Never"),
    "easydl": lambda spec: spec["parameterServer"].update(restartCount=0),
}


def succeeded(kind: str) -> World:
    world = WORLDS[kind]()
    for pod in world.names("Pod"):
        world.end(pod, 0)
    world.live()
    assert world.status["phase"].lower() == "succeeded"
    return world


def failed(kind: str) -> World:
    world = WORLDS[kind]()
    world.edit(FATAL[kind])
    world.live()
    world.end(VICTIMS[kind], 3, message="Traceback\nno data")
    if kind == "pytorch":
        world.end("j-worker-1", 3)
    world.live()
    assert world.status["phase"].lower() == "failed"
    return world


def line(world: World) -> JobSummary:
    assert world.job is not None
    return summarize(world.kind, world.job)


@pytest.mark.case("acceptance-11")
@pytest.mark.parametrize("kind", WORLDS)
def test_a_job_that_succeeded_claims_no_size(kind: str) -> None:
    world = succeeded(kind)
    shown = line(world)
    assert (shown.now or 0, shown.target) == (0, None)
    assert shown.reason == world.status["reason"] != ""
    assert world.status[FIELDS[kind]]["code"] == "Succeeded"
    assert not world.step()


@pytest.mark.case("acceptance-11")
@pytest.mark.parametrize("kind", WORLDS)
def test_a_job_that_failed_says_why_in_place_of_its_size(kind: str) -> None:
    world = failed(kind)
    shown = line(world)
    assert (shown.now or 0, shown.target) == (0, None)
    assert FAILED[kind] in shown.reason
    assert world.status[FIELDS[kind]]["code"] == "Failed"
    assert not [event for event in world.events if event.startswith("ScaledDown")], "its end is no change of size"


@pytest.mark.parametrize("kind", WORLDS)
def test_a_job_that_ended_under_an_earlier_operator_is_put_right(kind: str) -> None:
    world = succeeded(kind)
    assert world.job is not None
    claims = {"current": 4, "target": 6, "code": "AtMax", "reason": "holds 6: at max-instance"}
    world.job["status"][FIELDS[kind]] |= claims
    world.settle()
    assert line(world).target is None
    assert line(world).reason == world.status["reason"]
