"""A script that cannot work ends its job: all workers failed alike twice, right after their start."""

from typing import Any

import pytest

from edl.api.kubernetes import timestamp
from edl.api.status import JobProgress, RootCause
from edl.jobs.core.grant import Grant
from edl.jobs.core.pods.fail_fast import FailureKind, failed_alike, failure_kind
from edl.jobs.core.pods.slot_history import SlotHistory, SlotRecord
from edl.jobs.core.pods.slots import SlotPod
from tests.jobs.easydl.world import EasydlWorld, easydl, role
from tests.jobs.pytorch.world import PytorchWorld, elastic
from tests.jobs.world import World, manifest

TRACE = "Traceback (most recent call last):\n  File ...\nModuleNotFoundError: No module named 'nope'\n"


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        (1, TRACE, FailureKind(1, "ModuleNotFoundError: No module named 'nope'")),
        (2, "usage: t.py\nt.py: error: no such flag: --x\n\n", FailureKind(2, "t.py: error: no such flag: --x")),
        (2, "", FailureKind(2, "")),
        (127, "sh: nope: not found", FailureKind(127, "sh: nope: not found")),
        (0, "done", None),
        (None, "", None),
        (137, "", None),
        (-9, "", None),
        (1, "torch.distributed.DistNetworkError: The client socket has failed to connect", None),
        (1, "RendezvousConnectionError: no answer", None),
        (1, "ConnectionRefusedError: [Errno 111]", None),
        (1, "TimeoutError", None),
        (1, "torch.OutOfMemoryError: CUDA out of memory", None),
        (1, "socket.gaierror: Name or service not known", None),
    ],
)
def test_which_failures_are_a_scripts_own(code: int | None, message: str, kind: FailureKind | None) -> None:
    assert failure_kind(code, message) == kind


def pod(index: int, attempt: int = 1, **more: Any) -> SlotPod:
    known = {"state": "failed", "exit_code": 1, "reason": "Error", "message": TRACE, "started": 10.0, "ran": 3.0}
    return SlotPod(f"j-worker-{index}-{attempt}", f"u{index}-{attempt}", index, attempt, **{**known, **more})


def history(*failures: int) -> SlotHistory:
    slots = {index: SlotRecord(count, count - 1, count) for index, count in enumerate(failures)}
    return SlotHistory(peak=len(failures), slots=slots)


def test_two_rounds_alike_are_enough() -> None:
    found = failed_alike([pod(0, ended=13.0), pod(1, ended=12.0)], history(2, 2))
    assert found is not None
    assert found.index == 1


@pytest.mark.parametrize(
    ("pods", "failures"),
    [
        ([], ()),
        ([pod(0)], (1,)),
        ([pod(0), pod(1)], (2, 1)),
        ([pod(0), pod(1, message="another\n")], (2, 2)),
        ([pod(0), pod(1, exit_code=2)], (2, 2)),
        ([pod(0, ran=60.0)], (2,)),
        ([pod(0, exit_code=137)], (2,)),
        ([pod(0, reason="OOMKilled")], (2,)),
        ([pod(0, state="lost")], (2,)),
        ([pod(0), pod(1, state="running", exit_code=None, ran=61.0)], (2, 0)),
        ([pod(0), pod(1, state="running", exit_code=None, ran=5.0)], (2, 0)),
        ([pod(0, state="succeeded", exit_code=0)], (2,)),
        ([pod(0, attempt=0)], (6,)),
    ],
    ids=[
        "nobody",
        "once",
        "one of them once",
        "other words",
        "another code",
        "not at once",
        "a signal",
        "memory",
        "lost",
        "one trains",
        "one has not ended",
        "success",
        "never retried",
    ],
)
def test_anything_else_is_tried_again(pods: list[SlotPod], failures: tuple[int, ...]) -> None:
    assert failed_alike(pods, history(*failures)) is None


def test_a_third_pod_that_is_as_young_proves_nothing() -> None:
    assert failed_alike([pod(0), pod(0, 2, state="running", exit_code=None, ran=0.5)], history(2)) is not None


def world(**notes: str) -> PytorchWorld:
    made = PytorchWorld(elastic(1, 2, 2, annotations=notes))
    made.give(2)
    made.hopeless = RootCause(pod="j-worker-0", exit_code=1, reason="Error", message=TRACE)
    made.live()
    return made


def test_a_job_whose_rounds_cannot_work_fails_with_the_traceback() -> None:
    made = world()
    assert made.status["phase"] == "Failed"
    assert made.status["rootCause"]["message"] == TRACE
    condition = made.condition("Failed")
    assert condition is not None
    assert condition["reason"] == "FailedFast"


def test_the_users_patience_counts() -> None:
    assert world(**{"edl.dev/fail-fast": "false"}).status["phase"] == "Running"


def test_a_job_that_trains_is_not_given_up() -> None:
    made = PytorchWorld(elastic(1, 2, 2))
    made.progress = JobProgress(shown="1%", done=1, total=100)
    made.give(2)
    made.hopeless = RootCause(pod="j-worker-0", exit_code=1, message=TRACE)
    made.live()
    assert made.status["phase"] == "Running"


def training(**notes: str) -> tuple[World, str]:
    job = manifest()
    job["metadata"]["annotations"] = notes
    made = World(job)
    made.grant = Grant(2, "Started", "starts with 2")
    made.live()
    return made, "trainer"


def easydl_workers(**notes: str) -> tuple[World, str]:
    job = easydl(distributionStrategy="ring-allreduce")
    del job["spec"]["parameterServer"]
    job["metadata"]["annotations"] = notes
    made = EasydlWorld(job)
    made.planned(2, worker=role(2))
    return made, "worker"


def fail_once(world: World, role: str, *, last: str = TRACE) -> None:
    """All its pods, two seconds after their start; who follows them runs."""
    for name in world.pods(role):
        times = {"startedAt": timestamp.text(world.now), "finishedAt": timestamp.text(world.now + 2)}
        ended = {"exitCode": 1, "reason": "Error", "message": last, **times}
        world.set_status(name, "Failed", {"terminated": ended})
    world.now += 10
    world.live()


@pytest.mark.parametrize("kind", [training, easydl_workers])
def test_the_other_kinds_fail_fast_too(kind: Any) -> None:
    world, role = kind()
    fail_once(world, role)
    assert world.status["phase"].lower() == "running"
    fail_once(world, role)
    assert world.status["phase"].lower() == "failed"
    condition = world.condition("Failed")
    assert condition is not None
    assert condition["reason"] == "FailedFast"
    assert "No module named 'nope'" in str(world.status.get("root_cause") or world.status["rootCause"])
    assert world.pods(role) == []


@pytest.mark.parametrize("kind", [training, easydl_workers])
def test_the_other_kinds_have_patience_on_demand_and_with_what_may_pass(kind: Any) -> None:
    world, role = kind(**{"edl.dev/fail-fast": "false"})
    for _ in range(2):
        fail_once(world, role)
    assert world.status["phase"].lower() == "running"
    world, role = kind()
    for _ in range(2):
        fail_once(world, role, last="ConnectionRefusedError: [Errno 111]\n")
    assert world.status["phase"].lower() == "running"
