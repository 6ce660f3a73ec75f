"""EasyDL jobs on an API server: nothing is written at rest, and a crash after any write is repaired."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from edl.jobs.registry import EASYDL_JOB
from edl.operator.resources import JOB_RESOURCES, PODS, SERVICES, resource_of
from tests.operator.stage import Data, Stage, play, stage

TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "i"}]}}


def job() -> Data:
    roles = {role: {"template": TEMPLATE} for role in ("trainer", "worker", "parameterServer")}
    metadata = {"name": "j", "namespace": "default", "annotations": {"edl.dev/freezing-window": "0s"}}
    return {
        "apiVersion": EASYDL_JOB.api_versions[0],
        "kind": "ElasticJob",
        "metadata": metadata,
        "spec": roles,
    }


def plan(**spec: Any) -> Data:
    head = {"apiVersion": JOB_RESOURCES.api_version, "kind": JOB_RESOURCES.kind, "metadata": {"name": "r"}}
    return head | {"spec": {"selector": {"name": "j"}, **spec}}


def role(replicas: int, cpu: str = "500m") -> Data:
    return {"replicas": replicas, "resource": {"cpu": cpu}}


@contextlib.asynccontextmanager
async def easydl_stage() -> AsyncIterator[Stage]:
    async with stage() as scene:
        scene.jobs = resource_of(EASYDL_JOB)
        yield scene


async def runs(scene: Stage, *names: str) -> bool:
    """These and no others."""
    page = await scene.client.list(PODS, namespace="default")
    live = {
        pod["metadata"]["name"]: pod.get("status", {}).get("phase")
        for pod in page.items
        if "deletionTimestamp" not in pod["metadata"] and pod.get("status", {}).get("phase") != "Failed"
    }
    return live == {f"j-{name}": "Running" for name in names}


async def reported(scene: Stage, **wanted: Any) -> bool:
    status = (await scene.client.get(JOB_RESOURCES, "r", namespace="default")).get("status") or {}
    return all(status.get(field) == value for field, value in wanted.items())


async def life(scene: Stage) -> None:
    """With every kind of write in it: the trainer, a plan, an update, a failure, the end."""
    await scene.make(job())
    await scene.until(lambda: runs(scene, "trainer"), "the trainer runs alone")
    await scene.client.create(JOB_RESOURCES, plan(parameter_server=role(1), worker=role(2)), namespace="default")
    await scene.until(lambda: runs(scene, "trainer", "ps-0", "worker-0", "worker-1"), "pods by the plan")
    update = {"spec": {"parameter_server": role(1, "1"), "worker": role(1)}}
    await scene.client.patch(JOB_RESOURCES, "r", update, namespace="default")
    await scene.until(lambda: runs(scene, "trainer", "ps-0-1", "worker-0"), "a server that has moved, a worker less")
    await scene.end("j-worker-0", 3)
    await scene.until(lambda: runs(scene, "trainer", "ps-0-1", "worker-0-1"), "another worker")
    await scene.until(lambda: reported(scene, granted={"ps": 1, "worker": 1}), "the plan is told")
    await scene.end("j-trainer", 0)
    await scene.until_phase("Succeeded")
    await scene.until(lambda: reported(scene, reason="the job is over"), "the plan is told that, too")


async def ending(crash_after: int | None) -> tuple[Data, list[str]]:
    async with easydl_stage() as scene:
        writes = await play(scene, life, crash_after)
        return await final(scene), writes


async def final(scene: Stage) -> Data:
    """All that lasts, without what tells of moments."""
    status = await scene.status()
    names = {
        resource.kind: sorted(
            item["metadata"]["name"]
            for item in (await scene.client.list(resource, namespace="default")).items
            if "deletionTimestamp" not in item["metadata"]
        )
        for resource in (PODS, SERVICES)
    }
    conditions = {one["type"]: one["status"] for one in status["conditions"] if one["type"] != "Queued"}
    failed = {name: one.get("failed", 0) for name, one in status["replicaStatuses"].items()}
    return {"names": names, "conditions": conditions, "failed": failed, "plan": status["plan"]["roles"]}


async def test_a_crash_after_any_write_is_repaired_by_the_next_operator() -> None:
    untouched, writes = await ending(None)
    assert len(writes) > 15
    for number in range(2, len(writes) + 1, 4):
        ended, _ = await ending(number)
        assert ended == untouched, f"crashed after write {number}, {writes[number - 1]}"


async def test_at_rest_nothing_is_written() -> None:
    async with easydl_stage() as scene, scene.operator() as wire:
        await scene.make(job())
        await scene.client.create(JOB_RESOURCES, plan(parameter_server=role(1), worker=role(2)), namespace="default")
        await scene.until(lambda: runs(scene, "trainer", "ps-0", "worker-0", "worker-1"), "pods by the plan")
        await scene.until(lambda: reported(scene, granted={"ps": 1, "worker": 2}), "the plan is told")
        await wire.quiet(2.0)  # two cycles of the scheduler
        assert len(wire.writes) < 30, wire.writes
