"""Takes an installation away again, and nothing that is somebody else's.

What `edl install` makes goes by name, and only if it bears our label; what operators leave behind (lease, key, the way
to the leader, Brain's proof) goes with it; what Brain has learned goes with the kinds. The namespace goes last, and
stays if there is anything left in it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from edl.api.kinds import KINDS
from edl.install.choices import PART_OF, Choices
from edl.install.manifests import Manifest, manifests
from edl.install.places import resource_of
from edl.kube.client import Client
from edl.kube.errors import ApiError
from edl.kube.lease import LEASES
from edl.kube.resource import Resource
from edl.operator.resources import CRDS, JOBS, NAMESPACES, PODS, SECRETS, SERVICES, STATEFUL_SETS
from edl.operator.resources import resource_of as job_resource_of
from edl.operator.settings import BRAIN, LEASE, SECRET, SERVICE

WITHIN = 120.0

_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
_CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
_CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
_DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
# Where somebody's things would be, were they in our namespace.
_WORKLOADS = (_DEPLOYMENTS, STATEFUL_SETS, JOBS, PODS, *map(job_resource_of, KINDS))
_HOUSEHOLD = (*_WORKLOADS, SERVICES, SECRETS, _CONFIG_MAPS, _CLAIMS)
_EVERYWHERE = {"kube-root-ca.crt"}  # Kubernetes puts it into every namespace


async def remove(client: Client, namespace: str, *, crds: bool, say: Callable[[str], None]) -> None:
    """Returns when everything is gone. With `crds` the kinds go too, and every job there is, wherever it is."""
    every = Choices(namespace=namespace, service_monitor=True, dashboard=True, crds=False, create_namespace=False)
    for body in reversed(manifests(every)):
        if body["kind"] == _CLAIMS.kind and not crds:
            continue
        await _remove(client, resource_of(body), body["metadata"]["name"], body["metadata"].get("namespace"), say)
        if body["kind"] == _DEPLOYMENTS.kind:
            await _until_gone(client, namespace, body["spec"]["selector"]["matchLabels"])
    for resource, name in ((LEASES, LEASE), (SECRETS, SECRET), (SECRETS, BRAIN), (_SLICES, SERVICE)):
        await _remove(client, resource, name, namespace, say, ours=_made_by_operators)
    if crds:
        for kind in KINDS:
            await _remove(client, CRDS, kind.crd_name, None, say)
    elif await _find(client, _CLAIMS, BRAIN, namespace) is not None:
        say(f"PersistentVolumeClaim {BRAIN} stays with what Brain has learned, and with it Namespace {namespace}")
        return
    await _remove_namespace(client, namespace, say)


def _is_ours(body: Manifest) -> bool:
    labels = body["metadata"].get("labels") or {}
    return all(labels.get(name) == value for name, value in PART_OF.items())


def _made_by_operators(body: Manifest) -> bool:
    """Its name in our namespace says whose it is; the lease has never borne a label."""
    return True


async def _remove(
    client: Client,
    resource: Resource,
    name: str,
    namespace: str | None,
    say: Callable[[str], None],
    *,
    ours: Callable[[Manifest], bool] = _is_ours,
) -> None:
    found = await _find(client, resource, name, namespace)
    if found is None:
        return
    if not ours(found):
        say(f"{resource.kind} {name} is not EDL's and stays")
        return
    await client.delete(resource, name, namespace=namespace, uid=found["metadata"]["uid"])
    say(f"{resource.kind} {name} removed")


async def _find(client: Client, resource: Resource, name: str, namespace: str | None) -> Manifest | None:
    """An API group that is not there (such as Prometheus' own) holds nothing of ours."""
    try:
        return await client.get(resource, name, namespace=namespace)
    except ApiError as error:
        if error.is_not_found:
            return None
        raise


async def _until_gone(client: Client, namespace: str, labels: dict[str, str]) -> None:
    """Operators write a little until their very end, and need their rights for that."""
    async with asyncio.timeout(WITHIN):
        while (await client.list(PODS, namespace=namespace, labels=labels)).items:
            await asyncio.sleep(0.2)


async def _remove_namespace(client: Client, name: str, say: Callable[[str], None]) -> None:
    found = await _find(client, NAMESPACES, name, None)
    if found is None or not _is_ours(found):
        return
    strangers = [f"{kind} {one}" async for kind, one in _strangers(client, name)]
    if strangers:
        say(f"Namespace {name} stays, for there is more in it: {', '.join(strangers[:5])}")
        return
    await client.delete(NAMESPACES, name, uid=found["metadata"]["uid"])
    async with asyncio.timeout(WITHIN):
        while await _find(client, NAMESPACES, name, None) is not None:
            await asyncio.sleep(0.2)
    say(f"Namespace {name} removed")


async def _strangers(client: Client, namespace: str) -> AsyncIterator[tuple[str, str]]:
    for resource in _HOUSEHOLD:
        for body in await _list(client, resource, namespace):
            if body["metadata"]["name"] not in _EVERYWHERE and not _is_ours(body) and not _owned(body):
                yield resource.kind, body["metadata"]["name"]


async def _list(client: Client, resource: Resource, namespace: str) -> list[Manifest]:
    """A kind that the server does not know has no objects."""
    try:
        return (await client.list(resource, namespace=namespace)).items
    except ApiError as error:
        if error.is_not_found:
            return []
        raise


def _owned(body: dict[str, Any]) -> bool:
    """It follows its owner."""
    return bool(body["metadata"].get("ownerReferences"))
