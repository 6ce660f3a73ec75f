"""The operator against a real API server: what a user sees of a job's life."""

import logging
import time
from functools import partial
from typing import Any

import pytest

from edl.jobs.core.kind import JobKind
from edl.jobs.registry import PYTORCH_JOB, TRAINING_JOB
from edl.kube.rest.resource import Resource
from edl.operator.resources import JOBS, PODS, QUOTAS, REPLICA_SETS, SERVICES, TRAINING_JOBS, resource_of
from tests.operator.stage import Data, Stage, manifest, stage


async def test_a_job_runs_and_succeeds_with_few_calls() -> None:
    async with stage() as scene, scene.operator(settle=2.0) as wire:
        before = len(wire.writes)
        await scene.submit()
        status = await scene.until_phase("running")
        assert status["scale_status"]["target"] == 2
        assert await scene.pods() == ["j-trainer-0", "j-trainer-1"]
        await wire.quiet(2.5)
        writes = wire.writes[before:]
        made = [write for write in writes if write.startswith("POST")]
        assert len(writes) <= len(made) + 4, writes
        for name in await scene.pods():
            await scene.end(name, 0)
        await scene.until_phase("succeeded")
        await scene.until(lambda: _released(scene), "master and parameter servers are released")
        job = await scene.get(JOBS, "j-trainer")
        assert job is not None
        assert [one["type"] for one in job["status"]["conditions"]] == ["SuccessCriteriaMet", "Complete"]
        assert len((await scene.client.list(PODS, namespace="default")).items) == 2, "trainers stay for their logs"
        for reason in ("Admitted", "Creating", "Running", "Succeeded"):
            await scene.until_event(reason)


async def _released(scene: Stage) -> bool:
    return not await scene.pods("master") and not await scene.pods("pserver")


async def test_at_rest_nothing_is_written(caplog: pytest.LogCaptureFixture) -> None:
    """For a minute, which the operator's clock covers in twelve steps; after each it looks at every job."""
    caplog.set_level(logging.DEBUG, logger="edl.operator.scheduling_loop")
    ahead = 0.0
    async with stage() as scene, scene.operator(clock=lambda: time.time() + ahead, interval=0.2) as wire:
        await scene.submit("a", trainer={"min-instance": 1, "max-instance": 1})
        await scene.submit("waits", trainer={"min-instance": 99, "max-instance": 99})
        await scene.until_phase("running", "a")
        await scene.until_condition("Queued", name="waits")
        await wire.quiet(1.5)
        before = len(wire.writes)
        for step in range(12):
            ahead += 5.5
            await _looked_at(scene, caplog, "a", "waits", step=step)
        assert wire.writes[before:] == []


async def _looked_at(scene: Stage, caplog: pytest.LogCaptureFixture, *jobs: str, step: int) -> None:
    """Returns once the operator has seen the jobs touched, and has made a plan that knows of it."""

    def plans() -> int:
        return sum(record.message.startswith("cycle: ") for record in caplog.records)

    async def planned(times: int) -> bool:
        return plans() >= times

    for name in jobs:
        touch = {"metadata": {"annotations": {"touched": str(step)}}}
        await scene.client.patch(TRAINING_JOBS, name, touch, namespace="default")
    await scene.until(partial(planned, plans() + 2), "a plan is made that knows of it", jobs[0])


async def test_it_grows_when_a_freezing_window_ends_not_seconds_later() -> None:
    async with stage(cpu="5") as scene, scene.operator(interval=300.0):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web"},
            "spec": {"containers": [{"name": "web", "image": "x", "resources": {"requests": {"cpu": "2"}}}]},
        }
        await scene.client.create(PODS, pod, namespace="default")
        await scene.until(lambda: _bound(scene, "web"), "the service has its room")
        await scene.submit(trainer={"min-instance": 1, "max-instance": 6}, pserver=None, freezing_window="4s")
        await scene.until(lambda: _size(scene, 2), "takes what is left")
        await scene.client.delete(PODS, "web", namespace="default")
        await scene.until(lambda: _size(scene, 4), "nothing else happens any more, and no interval ends")


async def _bound(scene: Stage, name: str) -> bool:
    pod = await scene.get(PODS, name)
    return pod is not None and "nodeName" in pod["spec"]


async def test_it_grows_into_what_is_free_and_gives_way_to_an_online_service() -> None:
    async with stage(cpu="5") as scene, scene.operator():
        await scene.submit(trainer={"min-instance": 1, "max-instance": 6}, pserver=None, freezing_window="0s")
        await scene.until(lambda: _size(scene, 4), "grows to 4 of 5 cores, below the load cap")
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web"},
            "spec": {"containers": [{"name": "web", "image": "x", "resources": {"requests": {"cpu": "2"}}}]},
        }
        scene.asleep.add("web")
        await scene.client.create(PODS, pod, namespace="default")
        refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        await scene.client.patch(
            PODS, "web", {"status": {"conditions": [refused]}}, namespace="default", subresource="status"
        )
        await scene.until(lambda: _size(scene, 3), "makes room at once")
        history = (await scene.status())["scale_status"]["history"]
        assert "default/web" in history[-1]["reason"]


async def _size(scene: Stage, size: int) -> bool:
    return len(await scene.pods()) == size and (await scene.status()).get("phase") == "running"


async def test_a_killed_trainer_is_replaced_and_an_intolerant_job_fails() -> None:
    async with stage() as scene, scene.operator():
        await scene.submit("tolerant")
        await scene.submit("strict", fault_tolerant=False)
        for name in ("tolerant", "strict"):
            await scene.until_phase("running", name)
            await scene.end(f"{name}-trainer-1", 137, "last words")
        await scene.until_phase("failed", "strict")
        await scene.until(lambda: _is(scene.pods(name="tolerant"), "tolerant-trainer-1-1"), "the slot is filled again")
        status = await scene.status("strict")
        assert status["root_cause"] == {"pod": "strict-trainer-1", "exit_code": 137, "message": "last words"}
        assert (await scene.status("tolerant"))["phase"] == "running"
        await scene.until(lambda: _none(scene.pods(name="strict")), "those that still ran are stopped")
        job = await scene.until(lambda: _condition(scene, "strict-trainer", "Failed"), "the Job fails", "strict")
        assert "completionTime" not in job["status"]


async def _is(pods: Any, name: str) -> bool:
    return name in await pods


async def _none(pods: Any) -> bool:
    return not await pods


async def _condition(scene: Stage, job: str, kind: str) -> Any:
    found = await scene.get(JOBS, job)
    conditions = (found or {}).get("status", {}).get("conditions", ())
    return found if any(one["type"] == kind for one in conditions) else None


async def test_the_status_follows_what_happens_to_pods(caplog: pytest.LogCaptureFixture) -> None:
    """Within five seconds of the operator's clock, which stands still meanwhile: a job that has less than half of its
    size waits for more to tell, ten seconds."""
    caplog.set_level(logging.DEBUG, logger="edl.operator.scheduling_loop")
    now = time.time()
    async with stage() as scene, scene.operator(settle=0.6, interval=0.1, clock=lambda: now):
        scene.asleep = {"j-trainer-2", "j-trainer-3"}
        await scene.submit(trainer={"min-instance": 4, "max-instance": 4})
        for active, seconds in ((2, 10.0), (3, 1.0)):
            await scene.until(partial(_run, scene, active), f"{active} of four run")
            told = False
            for step in range(9):  # five, unless the operator notices late what happened
                now += seconds
                await _looked_at(scene, caplog, "j", step=10 * active + step)
                if told := await _active(scene, active):
                    break
            assert told, f"the status does not say so within {9 * seconds} s"
            scene.asleep = {"j-trainer-3"}


async def _run(scene: Stage, count: int) -> bool:
    """So many trainers."""
    labels = {"edl.dev/job": "j", "edl.dev/role": "trainer"}
    page = await scene.client.list(PODS, namespace="default", labels=labels)
    return [pod.get("status", {}).get("phase") for pod in page.items].count("Running") == count


async def _active(scene: Stage, count: int) -> bool:
    roles = (await scene.status()).get("replica_statuses") or [{}]
    return bool(roles[-1].get("active", 0) == count)


async def test_edits_of_size_and_template_are_honoured() -> None:
    async with stage(cpu="20") as scene, scene.operator():
        await scene.submit(trainer={"min-instance": 1, "max-instance": 1}, freezing_window="0s")
        await scene.until_phase("running")
        await scene.edit({"spec": {"image": "new", "trainer": {"max-instance": 3}}})
        await scene.until(lambda: _size(scene, 3), "grows to the new maximum")
        pod = await scene.get(PODS, "j-trainer-2")
        assert pod is not None
        assert pod["spec"]["containers"][0]["image"] == "new"
        await scene.edit({"spec": {"trainer": {"max-instance": 2}}})
        await scene.until(lambda: _size(scene, 2), "nobody is above its maximum")


async def test_a_manual_scale_is_obeyed_and_a_pin_holds_it() -> None:
    async with stage(cpu="20") as scene, scene.operator():
        await scene.submit(trainer={"min-instance": 1, "max-instance": 5}, freezing_window="0s")
        await scene.edit({"metadata": {"annotations": {"edl.dev/pin": "true"}}})
        await scene.until(lambda: _size(scene, 1), "pinned at the size that the user wrote")
        await scene.client.patch(
            TRAINING_JOBS, "j", {"spec": {"replicas": 3}}, namespace="default", subresource="scale"
        )
        await scene.until(lambda: _size(scene, 3), "as kubectl scale said")
        scale = await scene.client.get(TRAINING_JOBS, "j", namespace="default", subresource="scale")
        assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (3, 3)
        assert "edl.dev/role=trainer" in scale["status"]["selector"]


@pytest.mark.case("acceptance-10")
@pytest.mark.parametrize("kind", [TRAINING_JOB, PYTORCH_JOB], ids=["training", "pytorch"])
async def test_a_scale_while_nobody_leads_is_obeyed_and_held_by_the_next_leader(kind: JobKind) -> None:
    async with stage(cpu="20") as scene:
        async with scene.operator():
            scene.jobs = resource_of(kind)
            await scene.make(_elastic(kind, replicas=2, most=5))
            await scene.until(lambda: _target(scene, 5), "it has grown to its maximum")
        await scene.client.patch(scene.jobs, "j", {"spec": {"replicas": 3}}, namespace="default", subresource="scale")
        for _ in range(2):  # a further change of leaders makes it neither new nor forgotten
            async with scene.operator():
                await scene.until(lambda: _target(scene, 3), "as kubectl scale said")
                scale = await _scale(scene)
                assert (scale["code"], scale["hold"]["size"]) == ("Scaled", 3)
        async with scene.operator(clock=lambda: time.time() + 600.0):
            await scene.until(lambda: _target(scene, 5), "the hold is over")


def _elastic(kind: JobKind, *, replicas: int, most: int) -> Data:
    """A job that may have 1 to `most` instances, and never waits for a freezing window."""
    if kind is TRAINING_JOB:
        trainer = {"min-instance": 1, "max-instance": most, "replicas": replicas}
        return manifest(trainer=trainer, pserver=None, freezing_window="0s")
    container = {"name": "worker", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    worker = {"replicas": replicas, "template": {"spec": {"containers": [container]}}}
    metadata = {"name": "j", "annotations": {"edl.dev/freezing-window": "0s"}}
    spec = {"minReplicas": 1, "maxReplicas": most, "replicaSpecs": {"Worker": worker}}
    resource = resource_of(kind)
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}


async def _scale(scene: Stage) -> Data:
    status = await scene.status()
    found: Data = status.get("scale") or status.get("scale_status") or {}
    return found


async def _target(scene: Stage, size: int) -> bool:
    return bool((await _scale(scene)).get("target") == size)


async def test_suspend_and_resume() -> None:
    async with stage() as scene, scene.operator():
        await scene.submit()
        await scene.until_phase("running")
        await scene.edit({"spec": {"suspend": True}})
        await scene.until_condition("Suspended")
        await scene.until(lambda: _none(scene.pods()), "trainers are gone")
        await scene.until(lambda: _released(scene), "servers are gone")
        await scene.edit({"spec": {"suspend": None}})
        await scene.until_phase("running")
        assert await scene.pods() == ["j-trainer-0-1", "j-trainer-1-1"]


async def test_time_to_live() -> None:
    async with stage() as scene, scene.operator():
        await scene.submit(ttl_seconds_after_finished=0)
        await scene.until_phase("running")
        for name in await scene.pods():
            await scene.end(name, 0)

        async def gone() -> bool:
            try:
                return not await scene.job()
            except AssertionError:
                return True

        await scene.until(gone, "the job is deleted")


async def test_children_that_a_hand_removes_or_changes_come_back() -> None:
    async with stage() as scene, scene.operator():
        await scene.submit()
        await scene.until_phase("running")
        await scene.delete(SERVICES, "j-master")
        await scene.delete(PODS, "j-trainer-0", grace=0)
        await scene.client.patch(REPLICA_SETS, "j-pserver", {"spec": {"replicas": 7}}, namespace="default")
        await scene.until(lambda: scene.get(SERVICES, "j-master"), "the Service is back")
        await scene.until(lambda: _is(scene.pods(), "j-trainer-0-1"), "the trainer is replaced")
        await scene.until(lambda: _replicas(scene, "j-pserver", 2), "the size is set right")
        await scene.until_phase("running")


async def _replicas(scene: Stage, name: str, size: int) -> bool:
    found = await scene.get(REPLICA_SETS, name)
    return found is not None and found["spec"]["replicas"] == size


async def test_a_job_made_anew_under_its_name_starts_from_nothing() -> None:
    async with stage() as scene, scene.operator():
        await scene.submit()
        await scene.until_phase("running")
        first = await scene.job()
        await scene.end("j-trainer-0", 1)
        await scene.until(lambda: _is(scene.pods(), "j-trainer-0-1"), "a failure counts")
        await scene.delete(TRAINING_JOBS, "j")
        await scene.submit()
        status = await scene.until_phase("running")
        assert first["metadata"]["uid"] != (await scene.job())["metadata"]["uid"]
        assert "failed" not in status["replica_statuses"][-1]
        slots = [name[: len("j-trainer-0")] for name in await scene.pods()]
        assert slots == ["j-trainer-0", "j-trainer-1"], "under other names where those of the first job are still there"
        job = await scene.get(JOBS, "j-trainer")
        assert job is not None
        assert job["metadata"]["ownerReferences"][0]["uid"] == (await scene.job())["metadata"]["uid"]


async def test_what_an_earlier_job_left_without_an_owner_is_not_ours() -> None:
    async with stage() as scene, scene.operator():
        await scene.submit()
        await scene.until_phase("running")
        await scene.client.patch(
            REPLICA_SETS, "j-master", {"metadata": {"ownerReferences": None, "labels": None}}, namespace="default"
        )
        await scene.until_condition("NameTaken")
        await scene.delete(TRAINING_JOBS, "j")
        await scene.until(lambda: _gone(scene, JOBS, "j-trainer"), "the rest goes with the job")
        await scene.submit()
        condition = await scene.until_condition("NameTaken")
        assert "ReplicaSet j-master exists and belongs to somebody else" in condition["message"]
        await scene.until_event("ForeignObject")
        await scene.delete(REPLICA_SETS, "j-master")
        await scene.until_phase("running")
        await scene.until_condition("NameTaken", "False")


async def _gone(scene: Stage, resource: Resource, name: str) -> bool:
    return await scene.get(resource, name) is None


async def test_a_quota_reached_midway_is_told_and_overcome() -> None:
    """The plan knows of no quota on Services; the API server does."""
    async with stage() as scene, scene.operator():
        metadata = {"name": "few"}
        body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": {"services": "2"}}}
        await scene.client.create(QUOTAS, body, namespace="default")
        await scene.submit()
        condition = await scene.until_condition("Refused")
        assert "exceeded quota: few" in condition["message"]
        await scene.delete(QUOTAS, "few")
        await scene.until_phase("running")
        await scene.until_condition("Refused", "False")
