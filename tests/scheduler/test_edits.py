"""Edits of sizes that no freezing window holds up (decision 24), and those that one does."""

from typing import Any

import pytest

from edl.api.labels import PLAN_DIGEST, PLAN_URGENT
from edl.jobs.admission import check
from edl.jobs.easydl.job_resource import JobResource
from edl.jobs.easydl.plan_author import author_notes
from edl.scheduler.memory import Memory
from edl.scheduler.plan import Plan
from tests.scheduler.makers import (
    ALL,
    NOW,
    Data,
    elastic_job,
    node,
    of,
    planned,
    pods_of,
    reference,
    running,
    scaled,
    stamp,
    targets,
    training_job,
)

BY_TRAINER, BY_PERSON, FOR_OOM = "trainer", "person", "oom"


def plan_of(workers: int, generation: int, author: str) -> Data:
    """A JobResource as whoever wrote its last generation left it."""
    body: Data = {
        "apiVersion": "elastic.easydl.org/v1alpha1",
        "kind": "JobResource",
        "metadata": {"name": "a", "namespace": "default", "uid": "plan", "generation": generation},
        "spec": {"selector": {"name": "a"}, "worker": {"replicas": workers, "resource": {"cpu": 1}}},
    }
    plan = check(body).object
    assert isinstance(plan, JobResource)
    notes = author_notes(plan, urgent=author == FOR_OOM)
    if author == BY_PERSON:
        notes = {PLAN_DIGEST: "of what the trainer wrote"}
    body["metadata"]["annotations"] = notes
    return body


def easydl_job(target: int, *, scaled_ago: float = 5) -> Data:
    template = {"spec": {"containers": [{"name": "main", "image": "x"}]}}
    follows = {"source": "a", "generation": 1, "roles": {"worker": {"replicas": 2}}}
    return {
        "apiVersion": "elastic.iml.github.io/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": "a", "namespace": "default", "uid": "uid-default-a", "creationTimestamp": stamp(90)},
        "spec": {"distributionStrategy": "ring-allreduce", "worker": {"template": template}},
        "status": scaled(scaled_ago, target) | {"plan": follows, "phase": "Running"},
    }


def easydl_pods(job: Data, workers: int) -> list[Data]:
    names = [("a-trainer", "trainer", "0"), *((f"a-worker-{one}", "worker", "1") for one in range(workers))]
    made = []
    for name, role, cpu in names:
        body = {"name": role, "image": "x", "resources": {"requests": {"cpu": cpu}}}
        labels = {"edl.dev/job": "a", "edl.dev/role": role, "edl.dev/index": name[-1]}
        metadata = {"name": name, "namespace": "default", "labels": labels, "ownerReferences": [reference(job)]}
        spec = {"containers": [body], "nodeName": "n1"}
        status = {"phase": "Running", "startTime": stamp(60)}
        made.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status})
    return made


def easydl(workers: int, generation: int, author: str, memory: Memory | None = None, **more: Any) -> Plan:
    job = easydl_job(2, **more)
    objects = [node("n1", cpu=16), job, easydl_pods(job, 2), plan_of(workers, generation, author)]
    return planned(*objects, memory=memory, **ALL)


@pytest.mark.case("acceptance-8")
@pytest.mark.parametrize(("author", "grown"), [(BY_PERSON, 5), (FOR_OOM, 5), (BY_TRAINER, 2)])
def test_a_plan_is_obeyed_at_once_if_a_person_or_a_lack_of_memory_wrote_it(author: str, grown: int) -> None:
    memory = easydl(2, 1, BY_TRAINER).memory
    after = easydl(5, 2, author, memory)
    assert targets(after) == {"a": grown}
    assert ("frozen" in of(after, "a").reason) is (author == BY_TRAINER)


def test_a_trainers_plan_takes_effect_when_the_window_has_passed() -> None:
    assert targets(easydl(5, 2, BY_TRAINER, easydl(2, 1, BY_TRAINER).memory, scaled_ago=31)) == {"a": 5}


def test_an_edit_counts_once() -> None:
    """What changes the size after it is bound by the window of its change."""
    memory = easydl(5, 2, BY_PERSON, easydl(2, 1, BY_TRAINER).memory).memory
    assert targets(easydl(5, 2, BY_PERSON, memory)) == {"a": 2}, "it has grown, lost some, and is frozen"


def test_what_a_new_leader_sees_first_is_no_edit() -> None:
    assert targets(easydl(5, 2, BY_PERSON)) == {"a": 2}


def test_an_edit_without_room_is_obeyed_when_there_is_some() -> None:
    job = elastic_job("a", 1, 2, status=scaled(5, 2))
    filler = pods_of(training_job("b"), {"n1": 2})
    full = [node("n1", cpu=4), filler]
    memory = planned(*full, running(job, {"n1": 2}), **ALL).memory
    edited = running(elastic_job("a", 1, 4, status=scaled(5, 2)), {"n1": 2})
    held = planned(*full, edited, memory=memory, **ALL)
    assert targets(held)["a"] == 2
    freed = planned(node("n1", cpu=4), edited, memory=held.memory, now=NOW + 1, **ALL)
    assert targets(freed)["a"] == 4


@pytest.mark.parametrize("kind", [elastic_job, training_job])
def test_a_maximum_that_is_raised_is_obeyed_at_once(kind: Any) -> None:
    field = "scale_status" if kind is training_job else "scale"
    when = "last_scale_time" if kind is training_job else "lastScaleTime"
    status = {field: {"target": 2, "current": 2, when: stamp(5)}}
    nodes = node("n1", cpu=16)
    before = planned(nodes, running(kind("a", 1, 2, status=status), {"n1": 2}), **ALL)
    after = planned(nodes, running(kind("a", 1, 6, status=status), {"n1": 2}), memory=before.memory, **ALL)
    assert targets(after) == {"a": 6}


def test_the_notes_of_a_trainers_plan_say_whether_it_is_urgent() -> None:
    assert PLAN_URGENT not in plan_of(2, 1, BY_TRAINER)["metadata"]["annotations"]
    assert plan_of(2, 1, FOR_OOM)["metadata"]["annotations"][PLAN_URGENT] == "true"


def granted_plan(*, reached: bool) -> Data:
    """An EasyDL job whose trainer runs, and whose plan was granted two workers that it may not have."""
    job = easydl_job(2, scaled_ago=30)
    refused = {"type": "Refused", "status": "True", "message": "violates PodSecurity", "lastTransitionTime": stamp(20)}
    job["status"] |= {"conditions": [refused], "minimumReached": reached}
    return job


@pytest.mark.case("acceptance-24")
@pytest.mark.parametrize(("reached", "target"), [(False, 0), (True, 1)])
def test_26_a_plan_whose_pods_are_refused_gives_back_what_it_was_granted(reached: bool, target: int) -> None:
    """That its trainer runs does not mean that its workers ever did."""
    job = granted_plan(reached=reached)
    plan = planned(node("n1", cpu=16), job, easydl_pods(job, 0), plan_of(2, 1, BY_TRAINER), **ALL)
    assert targets(plan) == {"a": target}
    assert "violates PodSecurity" in of(plan, "a").reason


@pytest.mark.case("acceptance-24")
@pytest.mark.parametrize(("reached", "target"), [(False, 0), (True, 1)])
def test_26_a_plan_that_finds_no_node_is_withdrawn_whole_unless_it_ran(reached: bool, target: int) -> None:
    job = granted_plan(reached=reached)
    job["status"]["conditions"] = []
    workers = easydl_pods(job, 2)[1:]
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    for pod in workers:
        pod["status"] = {"phase": "Pending", "conditions": [unschedulable | {"lastTransitionTime": stamp(20)}]}
        del pod["spec"]["nodeName"]
    plan = planned(node("n1", cpu=16), job, easydl_pods(job, 0), workers, plan_of(2, 1, BY_TRAINER), **ALL)
    assert targets(plan) == {"a": target}
