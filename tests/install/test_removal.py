"""`edl install --apply` and `edl uninstall` on the embedded cluster: what comes, what goes, and what is not touched."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from edl.cli.local.admission import edl_rules
from edl.cli.main import main
from edl.embedded.cluster import EmbeddedCluster, embedded_cluster
from edl.embedded.server.http.direct import direct_transport
from edl.install.cluster.removal import remove
from edl.install.manifests import manifests
from edl.install.options import InstallOptions
from edl.install.resources import resource_of
from edl.kube.controllers.lease import LEASES
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError
from edl.kube.rest.transport import Request, Response, Transport
from edl.operator.resources import CRDS, SECRETS, TRAINING_JOBS
from edl.operator.settings import BRAIN, LEASE, NAMESPACE, SECRET

Data = dict[str, Any]
UNKNOWN = {
    "PodDisruptionBudget",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
    "PersistentVolumeClaim",
    "NetworkPolicy",
}  # to the embedded API server
KEPT = {"CustomResourceDefinition"}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    async with embedded_cluster(home=tmp_path, nodes=1, admission=edl_rules) as cluster:
        yield cluster


async def install(client: Client) -> list[Data]:
    """What the command applies, and what an operator leaves behind; but no operator runs."""
    made = [body for body in manifests(InstallOptions(replicas=0)) if body["kind"] not in UNKNOWN]
    for body in made:
        await client.apply(
            resource_of(body), body["metadata"]["name"], body, namespace=body["metadata"].get("namespace")
        )
    for resource, name in ((LEASES, LEASE), (SECRETS, SECRET), (SECRETS, BRAIN)):
        await client.create(resource, thing(resource, name), namespace=NAMESPACE)
    return made


def thing(resource: Any, name: str) -> Data:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": name}}


async def there(client: Client, resource: Any, name: str, namespace: str | None = None) -> bool:
    try:
        await client.get(resource, name, namespace=namespace)
    except ApiError as error:
        if not error.is_not_found:
            raise
        return False
    return True


async def left(client: Client, objects: list[Data]) -> set[str]:
    return {
        body["kind"]
        for body in objects
        if await there(client, resource_of(body), body["metadata"]["name"], body["metadata"].get("namespace"))
    }


async def test_everything_goes_but_the_kinds_and_jobs(cluster: EmbeddedCluster) -> None:
    client = cluster.client
    made = await install(client)
    job = {"trainer": {"entrypoint": "true", "min-instance": 1}}
    await client.create(
        TRAINING_JOBS,
        {"apiVersion": "paddlepaddle.org/v1", "kind": "TrainingJob", "metadata": {"name": "j"}, "spec": job},
        namespace="default",
    )
    said: list[str] = []
    await remove(client, NAMESPACE, crds=False, say=said.append)

    assert await left(client, made) == {*KEPT, "Namespace"}
    assert await there(client, TRAINING_JOBS, "j", "default")
    assert await there(client, SECRETS, SECRET, NAMESPACE), "its pods know the key, and whoever installs again must"
    assert said[-1] == f"Secret {SECRET} stays with the key of jobs that run, and with it Namespace {NAMESPACE}"
    said.clear()
    await client.patch(
        TRAINING_JOBS, "j", {"status": {"phase": "succeeded"}}, namespace="default", subresource="status"
    )
    await remove(client, NAMESPACE, crds=False, say=said.append)
    assert said == [f"Secret {SECRET} removed", f"Namespace {NAMESPACE} removed"]
    assert await left(client, made) == KEPT
    said.clear()
    await remove(client, NAMESPACE, crds=False, say=said.append)
    assert said == [], "a second time there is nothing to do"


async def test_a_cluster_that_lacks_a_kind_is_told_of(
    cluster: EmbeddedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["install", "--apply", "--kubeconfig", str(cluster.kubeconfig)]
    assert await asyncio.to_thread(main, words) == 1
    assert "edl: this cluster has no PodDisruptionBudget (policy/v1)" in capsys.readouterr().err
    assert await asyncio.to_thread(main, ["uninstall", "--crds", "--kubeconfig", str(cluster.kubeconfig)]) == 0
    assert f"Namespace {NAMESPACE} removed" in capsys.readouterr().out


async def test_the_kinds_go_when_asked(cluster: EmbeddedCluster) -> None:
    made = await install(cluster.client)
    await remove(cluster.client, NAMESPACE, crds=True, say=lambda line: None)
    assert await left(cluster.client, made) == set()


async def test_nothing_of_others_goes(cluster: EmbeddedCluster) -> None:
    """Somebody's Secret keeps the namespace; an object of our name that is not ours stays; so does a foreign kind."""
    client = cluster.client
    await install(client)
    await client.create(SECRETS, thing(SECRETS, "somebody-elses"), namespace=NAMESPACE)
    unlabelled = {"metadata": {"labels": {"app.kubernetes.io/part-of": None}}}
    await client.patch(CRDS, "trainingjobs.paddlepaddle.org", unlabelled)
    said: list[str] = []
    await remove(client, NAMESPACE, crds=True, say=said.append)

    assert await there(client, SECRETS, "somebody-elses", NAMESPACE)
    assert not await there(client, SECRETS, SECRET, NAMESPACE)
    assert not await there(client, SECRETS, BRAIN, NAMESPACE)
    assert await there(client, CRDS, "trainingjobs.paddlepaddle.org")
    assert f"Namespace {NAMESPACE} stays, for there is more in it: Secret somebody-elses" in said
    assert "CustomResourceDefinition trainingjobs.paddlepaddle.org is not EDL's and stays" in said


class Claimed:
    """A transport to a cluster that has Brain's claim, which the embedded API server does not know."""

    def __init__(self, inner: Transport) -> None:
        self._inner, self.there = inner, True

    async def request(self, request: Request) -> Response:
        if not request.path.endswith(f"/persistentvolumeclaims/{BRAIN}") or not self.there:
            return await self._inner.request(request)
        self.there = request.method != "DELETE"
        labels = {"app.kubernetes.io/part-of": "edl"}
        return Response(200, json.dumps({"metadata": {"name": BRAIN, "uid": "u", "labels": labels}}).encode())

    def stream(self, request: Request) -> contextlib.AbstractAsyncContextManager[Response]:
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


async def test_what_brain_learned_goes_with_the_kinds_alone(cluster: EmbeddedCluster) -> None:
    await install(cluster.client)
    claimed = Claimed(direct_transport(cluster.server.api))
    client, said = Client(claimed), list[str]()
    await remove(client, NAMESPACE, crds=False, say=said.append)
    assert claimed.there
    assert said[-1] == (
        f"PersistentVolumeClaim {BRAIN} stays with what Brain has learned, and with it Namespace {NAMESPACE}"
    )
    await remove(client, NAMESPACE, crds=True, say=said.append)
    assert not claimed.there
    assert said[-1] == f"Namespace {NAMESPACE} removed"
