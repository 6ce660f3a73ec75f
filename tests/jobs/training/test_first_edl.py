"""The errors of the first EDL, which was written in Go in 2017 and 2018, that are the operator's to avoid.

Each by the number that it has in what we know of that program. Those of its autoscaler (plans that never end, nodes
that are no good, ties by chance) are in `tests/scheduler/test_first_edl.py`.
"""

from typing import Any

import pytest

from edl.jobs.admission import check
from edl.jobs.core.grant import Grant
from edl.jobs.core.refusals import refused
from edl.jobs.training.types import TrainingJobStatus
from tests.jobs.world import World, manifest


def running(size: int = 2, **spec: Any) -> World:
    world = World(manifest(**spec))
    world.grant = Grant(size)
    world.live()
    return world


def test_b2_a_job_that_cannot_be_accepted_crashed_the_controller() -> None:
    body = manifest(trainer={"min-instance": 7})
    checked = check(body)
    assert checked.object is None
    outcome = refused(TrainingJobStatus(), checked.problems, 1, 0.0)
    [condition] = outcome.status.conditions
    assert (condition.status, condition.reason) == ("False", "Invalid")
    assert "min-instance: 7 is more than max-instance 4" in condition.message
    assert (outcome.status.phase, outcome.actions) == ("", ())
    again = refused(outcome.status, checked.problems, 1, 1.0)
    assert (again.status, again.events, again.urgent) == (outcome.status, (), False)


def test_b3_edits_were_ignored_and_froze_the_status() -> None:
    world = running()
    world.edit(lambda spec: spec["trainer"].update({"max-instance": 8, "entrypoint": "python v2.py"}))
    world.grant = Grant(3)
    world.live()
    assert (world.status["observedGeneration"], world.status["scale_status"]["current"]) == (2, 3)
    assert world.objects["Pod", "j-trainer-2"]["spec"]["containers"][0]["command"][-1] == "python v2.py"


def test_b4_some_succeeded_and_some_failed_was_neither() -> None:
    world = running()
    world.end("j-trainer-0", 0)
    world.live()
    for _ in range(6):
        assert world.status["phase"] == "running"
        world.now += 30
        world.end(world.pods()[0], 1)
        world.live()
    assert world.status["phase"] == "failed"


def test_b4_more_failures_than_trainers_were_not_noticed() -> None:
    world = running()
    for index in (0, 1, 0, 1, 0):
        world.now += 30
        world.end(world.pods()[index], 1)
        world.live()
    assert world.status["phase"] == "running", "no slot has reached its limit"
    assert world.status["replica_statuses"][-1]["failed"] == 5


def test_b6_a_scale_up_that_found_no_place_stayed_for_ever() -> None:
    world = running()
    world.grant = Grant(4, "Grown", "room for 2 more")
    world.settle()
    assert world.status["phase"] == "scaling"
    world.grant = Grant(2, "Withdrawn", "-2: the cluster refused them for 15 s", leavers={"trainer": {"": 2}})
    world.live()
    assert (world.status["phase"], world.pods()) == ("running", ["j-trainer-0", "j-trainer-1"])


@pytest.mark.parametrize("code", [0, 1])
def test_b7_what_a_job_held_was_kept_after_its_end(code: int) -> None:
    world = running(fault_tolerant=False, etcd={})
    for name in world.pods():
        world.end(name, code)
    world.live()
    assert world.status["phase"] == ("failed" if code else "succeeded")
    for role in ("master", "pserver", "etcd"):
        assert world.pods(role) == []
    for key, body in world.objects.items():
        if key[0] in ("ReplicaSet", "StatefulSet", "Job", "Service"):
            assert body["metadata"]["ownerReferences"][0]["uid"] == "uid-1", "Kubernetes removes it with the job"


def test_b10_the_reason_named_the_last_pod_as_often_as_there_were_failures() -> None:
    world = running(fault_tolerant=False)
    world.now += 10
    world.end("j-trainer-1", 7)
    world.now += 5
    world.end("j-trainer-0", 9)
    world.live()
    assert (world.status["root_cause"]["pod"], world.status["root_cause"]["exit_code"]) == ("j-trainer-1", 7)


def test_b11_too_many_failures_ended_as_success() -> None:
    world = running(backoff_limit=1)
    world.end("j-trainer-0", 1)
    world.live()
    conditions = {one["type"] for one in world.objects["Job", "j-trainer"]["status"]["conditions"]}
    assert (world.status["phase"], "Complete" in conditions) == ("failed", False)


@pytest.mark.parametrize(
    ("resources", "count"),
    [
        ({"limits": {"nvidia.com/gpu": 2}}, "2"),
        ({"limits": {"alpha.kubernetes.io/nvidia-gpu": 2}}, "2"),
        ({"requests": {"cpu": "100m"}}, "1"),
    ],
    ids=["limits alone", "the old name", "a part of a core"],
)
def test_b12_a_trainer_was_told_of_no_devices(resources: dict[str, Any], count: str) -> None:
    world = running(trainer={"resources": resources})
    [container] = world.objects["Pod", "j-trainer-0"]["spec"]["containers"]
    variables = {one["name"]: one.get("value") for one in container["env"]}
    assert variables["PADDLE_INIT_TRAINER_COUNT"] == count


def test_b14_every_tick_wrote_every_job() -> None:
    world = running()
    before = len(world.writes)
    for _ in range(20):
        world.now += 5
        world.live()
    assert world.writes[before:] == []


def test_b16_the_state_of_etcd_was_lost_with_the_master() -> None:
    world = running(etcd={"replicas": 3}, mountPath="/data")
    etcd, master = world.objects["StatefulSet", "j-etcd"], world.objects["ReplicaSet", "j-master"]
    assert etcd["spec"]["replicas"] == 3
    assert len(master["spec"]["template"]["spec"]["containers"]) == 1
    command = etcd["spec"]["template"]["spec"]["containers"][0]["command"]
    assert "--data-dir=/data/.edl-etcd/$(EDL_POD_NAME)" in command, "on the job's volume, if it has one"


def test_b17_it_spoke_to_apis_that_are_gone() -> None:
    world = running(etcd={})
    versions = {body["kind"]: body["apiVersion"] for key, body in world.objects.items() if key[0] != "Pod"}
    assert versions == {"Service": "v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "Job": "batch/v1"}


def test_b14_two_jobs_of_one_name_collided() -> None:
    """Everything is by namespace and uid; what is in another namespace is not even looked at."""
    world = running()
    for body in world.objects.values():
        assert body["metadata"]["labels"]["edl.dev/job-uid"] == "uid-1"


def test_a_change_of_the_spec_while_it_is_scaling() -> None:
    world = running()
    world.grant = Grant(4)
    world.settle()
    world.edit(lambda spec: spec["trainer"].update({"max-instance": 3, "min-instance": 1}))
    world.grant = Grant(3, "AboveMaximum", "-1: above max-instance 3")
    world.live()
    assert (world.status["phase"], len(world.pods())) == ("running", 3)
