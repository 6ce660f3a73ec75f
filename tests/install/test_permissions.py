"""Every kind of job is reconciled with the permissions that `edl install` grants, and no others are used."""

from typing import Any

import pytest

from edl.jobs import registry
from edl.jobs.core.kind import JobKind
from edl.jobs.crds import crds
from edl.kube.controllers.lease import LEASES
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError
from edl.operator.resources import CRDS, NAMESPACES, PODS, SECRETS, resource_of
from edl.operator.settings import NAMESPACE, ServiceSettings
from tests.api.samples import EASYDL_JOB, PYTORCH_JOB, TRAINING_JOB, varied
from tests.install.guard import Guard
from tests.operator.stage import Stage, Wire, stage

SAMPLES = {registry.TRAINING_JOB: TRAINING_JOB, registry.PYTORCH_JOB: PYTORCH_JOB, registry.EASYDL_JOB: EASYDL_JOB}
LOCAL = ServiceSettings(host="127.0.0.1", port=0, url="https://127.0.0.1:{port}")


async def prepared(scene: Stage) -> None:
    """What `edl install` makes before the first operator starts."""
    for body in crds():
        await scene.client.create(CRDS, body)
    await scene.client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    scene.registered = True


@pytest.mark.parametrize("kind", SAMPLES, ids=lambda kind: kind.name)
async def test_a_job_lives_and_ends_within_the_operators_rights(kind: JobKind) -> None:
    async with stage(cpu="64") as scene:
        await prepared(scene)
        guard = Guard(scene.transport())
        async with scene.operator(Wire(guard), service=LOCAL, register_crds=False):
            job = varied(SAMPLES[kind], **{"metadata.name": "j", "metadata.namespace": "default"})
            await scene.client.create(resource_of(kind), job, namespace="default")

            async def pods() -> Any:
                found = (await scene.client.list(PODS, namespace="default", labels={"edl.dev/job": "j"})).items
                return [pod for pod in found if pod.get("status", {}).get("phase") == "Running"]

            await scene.until(pods, "a pod runs")
            await scene.client.patch(resource_of(kind), "j", {"spec": {"suspend": True}}, namespace="default")

            async def none() -> bool:
                return not await pods()

            await scene.until(none, "it is suspended")
        assert guard.refused == []
        assert (resource_of(kind).group, f"{resource_of(kind).plural}/status", "patch") in guard.used


async def test_the_guard_refuses_what_is_not_granted() -> None:
    async with stage() as scene:
        await prepared(scene)
        guard = Guard(scene.transport())
        client = Client(guard)
        await client.get(NAMESPACES, NAMESPACE)
        with pytest.raises(ApiError, match="get /namespaces default"):
            await client.get(NAMESPACES, "default")
        with pytest.raises(ApiError, match="list /secrets"):
            await client.list(SECRETS, namespace=NAMESPACE)
        with pytest.raises(ApiError, match="create coordination"):
            await client.create(LEASES, {}, namespace="default")
        assert len(guard.refused) == 3
