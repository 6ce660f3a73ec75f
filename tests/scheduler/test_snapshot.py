"""From Kubernetes objects to facts: whose a pod is, what changed, and what is kept from one cycle to the next."""

import random
from typing import Any

import msgspec
import pytest

from edl.scheduler.memory import Memory
from edl.scheduler.plan import plan
from edl.scheduler.snapshot.builder import SnapshotBuilder, build_snapshot
from edl.scheduler.snapshot.objects import from_plain
from tests.scheduler.makers import (
    NOW,
    Data,
    child,
    elastic_job,
    flat,
    node,
    of,
    planned,
    pod,
    pods_of,
    reference,
    running,
    snapshot,
    targets,
    training_job,
)
from tests.scheduler.random_worlds import world

JOB = training_job("a", 1, 9, master=None)


def trainer(name: str = "a-trainer-0", **more: Any) -> Data:
    labels = more.pop("labels", {"edl.dev/job": "a", "edl.dev/role": "trainer"})
    return pod(name, "n1", labels=labels, **more)


def through(kind: str, uid: str, name: str = "a-trainer", **more: Any) -> Data:
    return {"apiVersion": "batch/v1", "kind": kind, "name": name, "uid": uid, "controller": True, **more}


# Whose a pod is


@pytest.mark.case("attack-2")
@pytest.mark.parametrize(
    ("one", "ours"),
    [
        (trainer(owner=reference(JOB)), True),
        (trainer(owner=reference(JOB), labels={}), True),
        (trainer(owner=through("Job", "uid-job-a"), labels={}), True),
        (trainer(), False),
        (trainer(owner=through("ReplicaSet", "not-listed")), True),
        (trainer(owner=through("ReplicaSet", "not-listed"), labels={}), False),
        (trainer(owner=through("TrainingJob", "uid-of-an-earlier-a", name="a")), False),
        (trainer(owner=through("Job", "uid-job-other")), False),
        (trainer(labels={"edl.dev/job": "other"}), False),
        (trainer(namespace="elsewhere"), False),
        (trainer(namespace="elsewhere", owner=reference(JOB)), False),
        (trainer(namespace="elsewhere", owner=reference(JOB), labels={}), False),
        (trainer(namespace="elsewhere", owner=through("Job", "uid-job-a")), False),
    ],
    ids=[
        "its controller is the job",
        "a label is not needed",
        "through its batch Job",
        "by label alone: anybody could write it",
        "by label, the controller is not listed",
        "an unknown controller and no label",
        "of an earlier job of the same name",
        "through a Job that is someone else's",
        "another job's label",
        "another namespace",
        "another namespace, which names the job as its controller",
        "another namespace, which names the job as its controller, without a label",
        "another namespace, which names the batch Job as its controller",
    ],
)
def test_whose_a_pod_is(one: Data, ours: bool) -> None:
    someone = {"name": "x", "namespace": "default", "uid": "uid-job-other"}
    other = {"apiVersion": "batch/v1", "kind": "Job", "metadata": someone}
    facts = snapshot(node("n1"), JOB, child(JOB, 4), other, one).jobs[0]
    assert sum(facts.live) == (1 if ours else 0)


def test_a_workload_that_the_operator_does_not_see_is_not_ours() -> None:
    """Its caches have all workloads of our jobs; a file may lack some."""
    forged = trainer(owner=through("ReplicaSet", "not-listed"))
    objects = from_plain([node("n1"), JOB, forged])
    assert build_snapshot(objects).jobs[0].live == (1,)
    assert build_snapshot(msgspec.structs.replace(objects, complete=True)).jobs[0].live == (0,)


def test_in_a_file_by_hand_nothing_has_a_uid() -> None:
    job = training_job("a", 1, 9, master=None)
    del job["metadata"]["uid"]
    batch = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a-trainer"}, "spec": {"parallelism": 3}}
    assert snapshot(node("n1"), job, batch).jobs[0].current == 3
    owner = {"apiVersion": job["apiVersion"], "kind": "TrainingJob", "name": "a", "controller": True}
    owned = pod("p", "n1", owner=owner)
    assert snapshot(node("n1"), job, owned).jobs[0].live == (1,)


def test_two_jobs_of_one_name_in_two_namespaces_are_two() -> None:
    here, there = training_job("a", 1, 9), training_job("a", 1, 9, namespace="other")
    plan_made = planned(node("n1", cpu=64), running(here, {"n1": 2}), running(there, {"n1": 3}))
    assert (of(plan_made, "a").current, of(plan_made, "a", "other").current) == (2, 3)


def test_two_kinds_of_one_name_share_no_pods() -> None:
    torch, paddle = elastic_job("a", 1, 9, uid="uid-torch"), training_job("a", 1, 9, uid="uid-paddle")
    facts = snapshot(node("n1", cpu=64), running(torch, {"n1": 2}), running(paddle, {"n1": 3})).jobs
    assert {one.kind: one.current for one in facts} == {"ElasticJob": 2, "TrainingJob": 3}


def test_roles_are_told_by_label_else_by_the_first_container() -> None:
    job = training_job("a", 1, 9)
    masters = pods_of(job, ["n1"], "master")
    del masters[0]["metadata"]["labels"]["edl.dev/role"]
    assert snapshot(node("n1"), [job, *pods_of(job, {"n1": 2})], masters).jobs[0].live == (1, 2)


def test_pods_of_an_earlier_template_give_back_what_they_have() -> None:
    """The job asks for 4 cores now; its pods have one each. Three of them make room for three cores, not for twelve."""
    old = running(elastic_job("a", 1, 20, cpu=1), {"n1": 8})
    edited = [elastic_job("a", 1, 20, cpu=4), *old[1:]]
    result = planned(node("n1", cpu=8), edited, pod("web", cpu=3, refused=5), max_load="1")
    assert targets(result) == {"a": 5}


def test_running_time_adds_up_over_pods_that_are_gone_and_pods_that_run() -> None:
    from edl.scheduler.unit import Unit

    job = elastic_job("a", 1, 9, status={"scale": {"podSeconds": 100.0}})
    facts = snapshot(node("n1"), running(job, {"n1": 2}, age=50)).jobs[0]
    assert Unit(facts, NOW, 1000).served == 200.0


# What is kept


def test_a_builder_that_has_seen_it_all_before_says_the_same_as_a_new_one() -> None:
    """Random worlds follow each other through one builder, objects changed, gone and come again."""
    builder = SnapshotBuilder()
    for seed in range(60):
        objects = from_plain(world(seed // 2))
        kept = plan(builder.build(objects), now=NOW + seed)
        fresh = plan(build_snapshot(objects), now=NOW + seed)
        assert kept == fresh, seed


def test_unchanged_jobs_and_nodes_are_the_same_facts() -> None:
    jobs = [running(JOB, {"n1": 2}), running(elastic_job("b", 1, 3), {"n2": 1})]
    objects = from_plain(flat(node("n1"), node("n2"), jobs))
    builder = SnapshotBuilder()
    first = builder.build(objects)
    more = msgspec.structs.replace(objects, pods=(*objects.pods, *from_plain(pods_of(JOB, ["n1"], first=9)).pods))
    second = builder.build(more)
    assert second.jobs[1] is first.jobs[1]
    assert second.jobs[0] is not first.jobs[0]
    assert second.nodes[1] is first.nodes[1]
    assert second.nodes[0].used[0] == first.nodes[0].used[0] + 1000


def test_an_edit_of_a_job_is_seen() -> None:
    builder = SnapshotBuilder()
    before = from_plain(flat(node("n1", cpu=64), running(training_job("a", 1, 3), {"n1": 1})))
    after = from_plain(flat(node("n1", cpu=64), running(training_job("a", 2, 5), {"n1": 1})))
    assert plan(builder.build(before), now=NOW).jobs[0].target == 3
    assert plan(builder.build(after), now=NOW).jobs[0].target == 5


def test_the_order_of_objects_means_nothing() -> None:
    for seed in range(40):
        objects = world(seed)
        shuffled = list(objects)
        random.Random(seed).shuffle(shuffled)  # a reproducible stream, not a secret
        assert planned(objects) == planned(shuffled)


def test_the_same_snapshot_gives_the_same_plan_and_is_not_changed_by_it() -> None:
    for seed in range(20):
        taken = snapshot(world(seed))
        assert plan(taken, now=NOW) == plan(taken, now=NOW)


def test_memory_survives_json_and_stays_small() -> None:
    for seed in range(40):
        memory = plan(snapshot(world(seed)), now=NOW).memory
        assert msgspec.json.decode(msgspec.json.encode(memory), type=Memory) == memory
        empty = plan(snapshot(node("n1")), memory, now=NOW + 10_000).memory
        assert empty == Memory()


def test_a_plan_can_be_made_in_another_process_or_thread() -> None:
    """Nothing global: two builders at once in two threads, and facts are plain values."""
    from concurrent.futures import ThreadPoolExecutor

    worlds = [from_plain(world(seed)) for seed in range(12)]
    alone = [plan(build_snapshot(objects), now=NOW) for objects in worlds]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda objects: plan(build_snapshot(objects), now=NOW), worlds))
    assert together == alone
