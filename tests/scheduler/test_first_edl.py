"""The errors of the first EDL's autoscaler, each by the number that it has in what we know of that program.

Those of its controller are in `tests/jobs/training/test_first_edl.py`; a name begins with the number, here as there.
"""

import random
from typing import Any

import msgspec
import pytest

from edl.scheduler.plan import plan
from edl.scheduler.reasons.codes import Code
from edl.scheduler.snapshot.builder import SnapshotBuilder
from edl.scheduler.snapshot.objects import from_plain
from tests.scheduler.makers import (
    NOW,
    Data,
    flat,
    node,
    of,
    planned,
    pod,
    resources,
    running,
    targets,
    training_job,
)

POLICIES = pytest.mark.parametrize("policy", ["cfs", "fulfillment"])
WITHOUT_PAUSE: Data = {"spec": {"freezing_window": "0s"}}


@POLICIES
@pytest.mark.parametrize("devices", range(1, 65, 7))
def test_b1_growth_into_the_last_three_percent_looped_for_ever(policy: str, devices: int) -> None:
    """Its up and down thresholds crossed. Here a plan that is carried out is followed by one that changes nothing."""
    job = training_job("a", 1, 100, gpu=1, **WITHOUT_PAUSE)
    cluster = node("n1", cpu=400, memory="400Gi", gpu=devices)
    first = targets(planned(cluster, running(job, {"n1": 1}), policy=policy))["a"]
    assert first == devices, "devices are used to the last one"
    again = planned(cluster, running(job, {"n1": first}), policy=policy)
    assert targets(again) == {"a": first}


@POLICIES
def test_b5_instances_were_taken_on_paper_from_jobs_that_had_ended(policy: str) -> None:
    done = training_job("done", 1, 6, status={"phase": "succeeded"})
    runs, waits = training_job("runs", 1, 6, **WITHOUT_PAUSE), training_job("waits", 2, 2)
    found = planned(node("n1", cpu=8), running(runs, {"n1": 6}), done, waits, policy=policy)
    assert of(found, "waits").code == Code.ROOM_COMING
    assert of(found, "runs").target < 6, "the one that runs makes the room"
    assert of(found, "done").target == 0


@POLICIES
def test_b6_an_instance_that_found_no_place_kept_its_job_from_ever_being_planned_for_again(policy: str) -> None:
    job = training_job("a", 1, 4, **WITHOUT_PAUSE)
    stuck = pod("a-trainer-1", cpu=1, refused=60, age=60, owner=None, labels={})
    stuck["metadata"] |= {"labels": {"edl.dev/job": "a", "edl.dev/role": "trainer", "edl.dev/index": "1"}}
    stuck["metadata"]["ownerReferences"] = running(job, {"n1": 1})[1]["metadata"]["ownerReferences"]
    found = planned(node("n1", cpu=2), running(job, {"n1": 1}), stuck, pod("web", "n1", cpu="800m"), policy=policy)
    assert of(found, "a").target == 1, "the place that is not there is given up"


@POLICIES
def test_b8_a_job_that_was_not_parsed_yet_crashed_the_autoscaler(policy: str) -> None:
    """A job without any status, one with an empty one, one that cannot be read, and one that is fine."""
    broken = training_job("broken", 5, 2)
    objects = [node("n1", cpu=8), training_job("new"), training_job("empty", status={}), broken, training_job("good")]
    found = targets(planned(objects, policy=policy))
    assert (found["new"], found["empty"], found["good"], found["broken"]) == (1, 1, 1, 0)


@POLICIES
def test_b9_it_changed_objects_that_others_were_reading(policy: str) -> None:
    objects = flat(node("n1", cpu=8), running(training_job("a", 1, 6, **WITHOUT_PAUSE), {"n1": 2}), training_job("b"))
    read = from_plain(objects)
    before = msgspec.to_builtins([read.nodes, read.pods, read.jobs])
    builder = SnapshotBuilder()
    for _ in range(3):
        plan(builder.build(read), now=NOW)
    assert msgspec.to_builtins([read.nodes, read.pods, read.jobs]) == before


@POLICIES
def test_b13_equal_jobs_got_instances_by_chance(policy: str) -> None:
    """Ties are broken by name, the order of what is listed does not matter, and planned sizes count, not old ones."""
    jobs = [training_job(name, 1, 9, **WITHOUT_PAUSE) for name in "abcd"]
    nodes = [node(f"n{number}", cpu=3) for number in range(3)]
    answers = []
    for seed in range(8):
        objects = [*nodes, *jobs]
        random.Random(seed).shuffle(objects)
        answers.append(planned(objects, policy=policy).jobs)
    assert all(answer == answers[0] for answer in answers)
    sizes = sorted(job.target for job in answers[0])
    assert sizes[-1] - sizes[0] <= 1, "each next instance goes to the one that has least by then"


@POLICIES
def test_b14_room_on_a_node_grew_with_every_instance_put_there(policy: str) -> None:
    job = training_job("a", 1, 50, cpu=2, **WITHOUT_PAUSE)
    found = planned(node("n1", cpu=8), node("n2", cpu=3), job, policy=policy, max_load="1")
    assert of(found, "a").target == 5, "four on the one, one beside the master on the other"


@POLICIES
def test_b14_two_jobs_of_one_name_were_one_job(policy: str) -> None:
    mine, other = training_job("a", 1, 1), training_job("a", 3, 3, namespace="other")
    found = planned(node("n1", cpu=8), mine, other, policy=policy)
    assert (of(found, "a").target, of(found, "a", "other").target) == (1, 3)


@POLICIES
@pytest.mark.parametrize(
    "useless",
    [
        {"ready": False},
        {"cordoned": True},
        {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
        {"labels": {"disk": "slow"}},
        {"gpu": 0},
    ],
    ids=["not ready", "cordoned", "tainted", "not selected", "without GPUs"],
)
def test_b15_nodes_that_are_no_good_were_counted(policy: str, useless: dict[str, Any]) -> None:
    selector = {"template": {"spec": {"nodeSelector": {"disk": "fast"}}}}
    job = training_job("a", 1, 9, gpu=1, trainer=selector, **WITHOUT_PAUSE)
    good = node("good", cpu=8, gpu=2, labels={"disk": "fast"})
    whole: Data = {"cpu": 64, "gpu": 8, "labels": {"disk": "fast"}}
    bad = node("bad", **(whole | useless))
    found = planned(good, bad, job, policy=policy)
    assert (of(found, "a").target, set(of(found, "a").placements["trainer"])) == (2, {"good"})


@POLICIES
def test_b12_devices_that_only_limits_name_were_not_seen(policy: str) -> None:
    only_limits = {"resources": {"limits": resources(1, "1Gi", gpu=1)["limits"]}}
    job = training_job("a", 1, 9, trainer=only_limits, **WITHOUT_PAUSE)
    assert targets(planned(node("n1", cpu=64, gpu=3), job, policy=policy)) == {"a": 3}
