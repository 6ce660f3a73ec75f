"""ElasticJobs of PyTorch against a real API server: few writes, none at rest, and a crash after any of them."""

import contextlib
from collections.abc import AsyncIterator

import pytest

from edl.jobs.registry import PYTORCH_JOB
from edl.kube.controllers.recorder import EVENTS
from edl.operator.resources import PODS, SERVICES, resource_of
from tests.operator.stage import Data, Stage, play, stage


def elastic(least: int = 2, most: int = 2, **spec: object) -> Data:
    container = {"name": "worker", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    worker = {"replicas": least, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": resource_of(PYTORCH_JOB).api_version,
        "kind": resource_of(PYTORCH_JOB).kind,
        "metadata": {"name": "j", "namespace": "default", "annotations": {"edl.dev/freezing-window": "0s"}},
        "spec": {"minReplicas": least, "maxReplicas": most, "replicaSpecs": {"Worker": worker}} | spec,
    }


@contextlib.asynccontextmanager
async def elastic_stage() -> AsyncIterator[Stage]:
    async with stage() as scene:
        scene.jobs = resource_of(PYTORCH_JOB)
        yield scene


async def test_a_job_costs_few_writes_and_none_at_rest() -> None:
    async with elastic_stage() as scene, scene.operator(settle=2.0) as wire:
        before = len(wire.writes)
        await scene.make(elastic(3, 3))
        await scene.until_phase("Running")
        await scene.until(lambda: _reported(scene, 3), "all workers are told of")
        await wire.quiet(2.0)  # the scheduler looks every second
        writes = wire.writes[before:]
        made = [write for write in writes if write.startswith("POST")]
        assert len(made) == 6, "a pod and a Service for each worker"
        assert len(writes) <= len(made) + 4, writes


async def _reported(scene: Stage, count: int) -> bool:
    counts = (await scene.status()).get("replicaStatuses", {}).get("Worker", {})
    return bool(counts.get("active", 0) == count)


async def test_events_are_those_of_the_design() -> None:
    async with elastic_stage() as scene, scene.operator():
        await scene.make(elastic(backoffLimit=0))
        await scene.until_phase("Running")
        await scene.end("j-worker-0", 1)
        await scene.until_phase("Failed")
        await scene.until_event("JobFailed")
        events = (await scene.client.list(EVENTS, namespace="default")).items
        mine = [event for event in events if event["regarding"]["name"] == "j"]
        assert {event["reportingController"] for event in mine} == {"elastic-job-controller"}
        said = [f"{event['type']} {event['reason']}: {event['note']}" for event in mine]
        for wanted in (
            "Normal SuccessfulCreatePod: Created pod: j-worker-0",
            "Normal SuccessfulCreateService: Created service: j-worker-1",
            "Normal ElasticJobRunning: ElasticJob j is running.",
            "Normal ExitedWithCode: Pod: default.j-worker-0 exited with code 1",
            "Normal JobFailed: Job j has failed because it has reached the specified backoff limit",
        ):
            assert wanted in said


async def test_a_foreign_service_is_told_of_and_waited_for() -> None:
    async with elastic_stage() as scene, scene.operator():
        port = {"port": 1}
        theirs = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "j-worker-0"}, "spec": {"ports": [port]}}
        await scene.client.create(SERVICES, theirs, namespace="default")
        await scene.make(elastic())
        taken = await scene.until_condition("NameTaken")
        assert "Service j-worker-0 exists and belongs to somebody else" in taken["message"]
        await scene.until(lambda: _reported(scene, 2), "workers run all the same")
        await scene.delete(SERVICES, "j-worker-0")
        await scene.until_condition("NameTaken", "False")
        service = await scene.get(SERVICES, "j-worker-0")
        assert service is not None
        assert service["spec"]["clusterIP"] == "None"


@pytest.mark.parametrize(("kind", "reported"), [(PYTORCH_JOB.crd_name, False), ("others.example.com", True)])
async def test_a_pod_of_another_job_keeps_nobody_busy(kind: str, reported: bool) -> None:
    """What an earlier job of the name left is on its way out and not worth a word; a namesake's is."""
    async with elastic_stage() as scene, scene.operator() as wire:
        labels = {"edl.dev/job": "j", "edl.dev/kind": kind, "edl.dev/job-uid": "another"}
        spec = {"containers": [{"name": "c", "image": "x"}]}
        theirs = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "j-worker-0", "labels": labels}, "spec": spec}
        await scene.client.create(PODS, theirs, namespace="default")
        await scene.make(elastic())
        await scene.until(lambda: _reported(scene, 2), "two run")
        await wire.quiet(2.0)  # the scheduler looks every second
        assert await _runs(scene, "j-worker-0-1")
        assert len(wire.writes) < 25, wire.writes
        conditions = {one["type"]: one["status"] for one in (await scene.status())["conditions"]}
        assert (conditions.get("NameTaken") == "True") == reported


async def test_a_size_that_a_user_sets_is_held_and_the_reason_says_until_when() -> None:
    async with elastic_stage() as scene, scene.operator() as wire:
        job = elastic(1, 4)
        job["spec"]["replicaSpecs"]["Worker"]["replicas"] = 2
        await scene.make(job)
        await scene.until(lambda: _reported(scene, 4), "it has grown")
        history = (await scene.status())["scale"]["history"]
        assert [change["to"] for change in history] == [2, 4]
        await scene.edit({"spec": {"replicaSpecs": {"Worker": {"replicas": 3}}}})
        await scene.until(lambda: _reported(scene, 3), "it has the size that its user set")
        await wire.quiet(2.0)  # the scheduler looks every second
        scale = (await scene.status())["scale"]
        assert (scale["target"], scale["code"]) == (3, "Scaled")
        assert "its user asked for 3, which is held until" in scale["reason"]


async def test_a_minimum_raised_beyond_the_cluster_waits_and_does_not_count_yet() -> None:
    async with elastic_stage() as scene, scene.operator() as wire:
        job = elastic(2, 4)
        job["spec"]["replicaSpecs"]["Worker"] |= {"restartPolicy": "ExitCode", "replicas": 4}
        await scene.make(job)
        await scene.until(lambda: _reported(scene, 4), "four run")
        worker = {"Worker": {"replicas": 50}}
        await scene.edit({"spec": {"minReplicas": 50, "maxReplicas": 60, "replicaSpecs": worker}})
        await scene.until(lambda: _reason(scene, "holds 4: its new minimum of 50 waits: needs"), "the reason says so")
        await scene.end("j-worker-1", 2)
        await scene.until(lambda: _reported(scene, 3), "three go on")
        await wire.quiet(2.0)  # the scheduler looks every second
        status = await scene.status()
        assert status["phase"] in ("Running", "Scaling")
        assert (status["scale"]["target"], status["scale"]["minimum"]) == (4, 2)
        assert len(await scene.pods("worker")) == 3
        await scene.edit({"spec": {"minReplicas": 3}})
        await scene.until(lambda: _minimum(scene, 3), "a minimum that was reached is in force")


async def _reason(scene: Stage, begins: str) -> bool:
    return str((await scene.status()).get("scale", {}).get("reason", "")).startswith(begins)


async def _minimum(scene: Stage, size: int) -> bool:
    return bool((await scene.status()).get("scale", {}).get("minimum") == size)


async def test_a_job_that_goes_on_without_a_worker_rests_too() -> None:
    async with elastic_stage() as scene, scene.operator() as wire:
        job = elastic(2, 3)
        job["spec"]["replicaSpecs"]["Worker"] |= {"restartPolicy": "ExitCode", "replicas": 3}
        await scene.make(job)
        await scene.until(lambda: _reported(scene, 3), "three run")
        await scene.end("j-worker-1", 2)
        await scene.until(lambda: _reported(scene, 2), "two are left")
        await scene.until_phase("Running")
        await wire.quiet(2.0)  # the scheduler looks every second
        assert await scene.pods("worker") == ["j-worker-0", "j-worker-2"]


async def scenario(scene: Stage) -> None:
    """A short life with every kind of write in it."""
    await scene.make(elastic(1, 2, maxReplicas=1))
    await scene.until_phase("Running")
    await scene.edit({"spec": {"maxReplicas": 2}})
    await scene.until(lambda: _runs(scene, "j-worker-1"), "it has grown")
    await scene.end("j-worker-0", 137)
    await scene.until(lambda: _runs(scene, "j-worker-0-1"), "the successor of the first runs")
    await scene.until_phase("Running")
    for name in ("j-worker-0-1", "j-worker-1"):
        await scene.end(name, 0)
    await scene.until_phase("Succeeded")


async def _runs(scene: Stage, name: str) -> bool:
    pod = await scene.get(PODS, name)
    return pod is not None and pod.get("status", {}).get("phase") == "Running"


async def ending(crash_after: int | None) -> tuple[Data, list[str]]:
    async with elastic_stage() as scene:
        writes = await play(scene, scenario, crash_after)
        return await final(scene), writes


async def final(scene: Stage) -> Data:
    """All that lasts, without what tells of moments."""
    names: Data = {}
    for resource in (PODS, SERVICES):
        items = (await scene.client.list(resource, namespace="default")).items
        names[resource.kind] = sorted(item["metadata"]["name"] for item in items)
    status = await scene.status()
    conditions = {one["type"]: (one["status"], one["reason"]) for one in status["conditions"]}
    slots = status.get("slots")
    return {"names": names, "conditions": conditions, "counts": status["replicaStatuses"], "slots": slots}


async def test_a_crash_after_any_write_is_repaired_by_the_next_operator() -> None:
    untouched, writes = await ending(None)
    assert len(writes) > 8
    for number in range(1, len(writes) + 1, 2):
        ended, _ = await ending(number)
        assert ended == untouched, f"crashed after write {number}, {writes[number - 1]}"
