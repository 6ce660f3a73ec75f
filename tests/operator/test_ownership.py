"""Ownership as the operator sees it, consumer by consumer: by namespace and controller, never by a label."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
import pytest

from edl.jobs.core.actions import Create
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError, Status
from edl.operator.credentials.identity import Identity
from edl.operator.job_service_host import Records
from edl.operator.reconcile.action_runner import ActionRunner
from edl.operator.reconcile.caches import Caches
from edl.operator.reconcile.job_cache import JobCache
from edl.operator.reconcile.job_key import JobKey
from edl.operator.resources import NAMESPACES, PODS, SERVICES, TRAINING_JOBS
from edl.operator.trainer_requests import TrainerRequestHandler
from tests.operator.stage import Stage, stage

pytestmark = pytest.mark.case("attack-2")

KEY = JobKey("trainingjobs.paddlepaddle.org", "default", "j")


@pytest.fixture
async def scene() -> AsyncIterator[Stage]:
    async with stage() as scene, scene.operator():
        await scene.submit(master=None, pserver=None)
        await scene.until_phase("running")
        yield scene


async def forge(scene: Stage, namespace: str, name: str, **metadata: Any) -> None:
    real = await scene.get(PODS, "j-trainer-0")
    assert real is not None
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": real["metadata"]["labels"], **metadata},
        "spec": {"containers": [{"name": "main", "image": "x"}]},
    }
    await scene.client.create(PODS, body, namespace=namespace)


async def test_neither_records_nor_lists_of_pods_show_a_stranger(scene: Stage) -> None:
    await scene.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    real = await scene.get(PODS, "j-trainer-0")
    assert real is not None
    await forge(scene, "other", "elsewhere", ownerReferences=real["metadata"]["ownerReferences"])
    await forge(scene, "default", "beside")
    uid = (await scene.job())["metadata"]["uid"]
    async with _filled(scene) as caches:
        assert sorted(pod.metadata.name for pod in caches.pods_of(KEY, uid)) == ["j-trainer-0", "j-trainer-1"]
        book = JobCache(caches.jobs)
        [record] = Records(caches, book, Identity(b"key", "", "", "", ""))("default", "j")
        assert record.pods == frozenset({"j-trainer-0", "j-trainer-1"})
        trainers = TrainerRequestHandler(scene.client, caches, book, gpu="gpu")
        assert [pod.name for pod in trainers.pods("default", "j", record)] == ["j-trainer-0", "j-trainer-1"]


@asynccontextmanager
async def _filled(scene: Stage) -> AsyncIterator[Caches]:
    caches = Caches(scene.client)
    tasks = [asyncio.create_task(informer.run()) for informer in caches.all]
    try:
        for informer in caches.all:
            await informer.wait_synced()
        yield caches
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Taken:
    """A client for whom every name is taken, by an object with this metadata."""

    def __init__(self, **metadata: Any) -> None:
        self._metadata = metadata

    async def create(self, *_: object, **__: object) -> Any:
        raise ApiError(Status(code=409, reason="AlreadyExists", message="it exists"))

    async def get(self, *_: object, **wanted: Any) -> Any:
        return msgspec.convert({"metadata": self._metadata}, wanted["type"])


OWNER = {"apiVersion": "v1", "kind": "TrainingJob", "name": "j", "uid": "uid-1", "controller": True}
LABELS = {"edl.dev/job-uid": "uid-1"}


@pytest.mark.parametrize(
    ("metadata", "ours"),
    [
        ({"ownerReferences": [OWNER]}, True),
        ({"labels": LABELS}, False),
        ({"labels": LABELS, "ownerReferences": [{**OWNER, "uid": "uid-2"}]}, False),
        ({"labels": LABELS, "ownerReferences": [{**OWNER, "controller": False}]}, False),
    ],
)
@pytest.mark.parametrize("resource", [PODS, SERVICES])
async def test_a_name_that_is_taken_is_ours_by_its_controller_alone(
    metadata: dict[str, Any], ours: bool, resource: Any
) -> None:
    runner = ActionRunner(cast(Client, Taken(**metadata)), TRAINING_JOBS)
    create = Create(resource.kind, "x", {"metadata": {"name": "x", "ownerReferences": [OWNER]}})
    results = await runner.run([create], namespace="ns")
    assert bool(results.made) == ours
    assert [refusal.foreign for refusal in results.refusals] == ([] if ours else [True])
