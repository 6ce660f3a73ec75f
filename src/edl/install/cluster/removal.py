"""Removes an installation, and nothing else.

Objects of `edl install` are deleted by name, and only if they bear EDL's label; so is what its options brought, and
what operators created (lease, key, EndpointSlice of the job service, Brain's Secret, the ledger). Brain's history is
deleted with the kinds. The key stays while jobs run, for whoever installs EDL again. The namespace goes last, and stays
if there is anything left in it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from edl.install.cluster.installed import Installed, SecondInstallationError, others
from edl.install.cluster.pruning import Scope, prune
from edl.install.manifests import Manifest, manifests
from edl.install.options import PART_OF, InstallOptions
from edl.install.resources import resource_of
from edl.jobs.core.phase import FINAL
from edl.jobs.registry import JOB_KINDS, KINDS
from edl.kube.controllers.lease import LEASES
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError
from edl.kube.rest.resource import Resource
from edl.operator.resources import CRDS, JOBS, NAMESPACES, PODS, SECRETS, SERVICES, STATEFUL_SETS
from edl.operator.resources import resource_of as job_resource_of
from edl.operator.settings import BRAIN, LEASE, LEDGER, SECRET, SERVICE

TIMEOUT = 120.0

_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
_CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
_CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
_DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
# Kinds of which foreign objects keep the namespace from being deleted.
_WORKLOADS = (_DEPLOYMENTS, STATEFUL_SETS, JOBS, PODS, *map(job_resource_of, KINDS))
_CHECKED = (*_WORKLOADS, SERVICES, SECRETS, _CONFIG_MAPS, _CLAIMS)
_IN_EVERY_NAMESPACE = {"kube-root-ca.crt"}  # Kubernetes puts it into every namespace


async def remove(client: Client, namespace: str, *, crds: bool, say: Callable[[str], None]) -> None:
    """Returns when everything is gone. With `crds` the kinds go too, and every job there is, wherever it is."""
    rest = await others(client, namespace)
    if crds and rest:
        raise SecondInstallationError(
            f"EDL in namespace {rest[0].namespace} needs the kinds, and its jobs would go with them; leave --crds out, "
            f"or remove that one first: edl uninstall -n {rest[0].namespace}"
        )
    scope = await Scope.of(client, namespace)
    for body in reversed(manifests(InstallOptions(namespace=namespace, crds=False, create_namespace=False))):
        if (body["kind"] == _CLAIMS.kind and not crds) or not scope.covers(body):
            continue
        await _remove(client, resource_of(body), body["metadata"]["name"], body["metadata"].get("namespace"), say)
        if body["kind"] == _DEPLOYMENTS.kind:
            await _until_gone(client, namespace, body["spec"]["selector"]["matchLabels"])
    await prune(client, namespace, (), say)  # what options brought, wherever it is
    for resource, name in ((LEASES, LEASE), (SECRETS, BRAIN), (_SLICES, SERVICE), (_CONFIG_MAPS, LEDGER)):
        await _remove(client, resource, name, namespace, say, ours=_made_by_operators)
    identity = await client.find(SECRETS, SECRET, namespace=namespace)
    kept = not crds and identity is not None and await _any_job_runs(client, rest)
    if not kept:
        await _remove(client, SECRETS, SECRET, namespace, say, ours=_made_by_operators)
    if crds:
        for kind in KINDS:
            await _remove(client, CRDS, kind.crd_name, None, say)
    elif await client.find(_CLAIMS, BRAIN, namespace=namespace) is not None:
        say(f"PersistentVolumeClaim {BRAIN} stays with what Brain has learned, and with it Namespace {namespace}")
        return
    if kept:
        say(f"Secret {SECRET} stays with the key of jobs that run, and with it Namespace {namespace}")
        return
    await _remove_namespace(client, namespace, say)


async def _any_job_runs(client: Client, rest: Iterable[Installed]) -> bool:
    """Its pods have a token and trust an authority that the next installation must know: they cannot be told others.
    Jobs of the `rest` of the installations are theirs."""
    for kind in JOB_KINDS:
        for job in await _list(client, job_resource_of(kind), None):
            if any(one.looks_after(job["metadata"]["namespace"]) for one in rest):
                continue
            if str((job.get("status") or {}).get("phase")).lower() not in FINAL:
                return True
    return False


def _is_ours(body: Manifest) -> bool:
    labels = body["metadata"].get("labels") or {}
    return all(labels.get(name) == value for name, value in PART_OF.items())


def _made_by_operators(body: Manifest) -> bool:
    """Its name in the operator's namespace identifies it; the lease has never borne a label."""
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
    found = await client.find(resource, name, namespace=namespace)
    if found is None:
        return
    if not ours(found):
        say(f"{resource.kind} {name} is not EDL's and stays")
        return
    await client.delete(resource, name, namespace=namespace, uid=found["metadata"]["uid"])
    say(f"{resource.kind} {name} removed")


async def _until_gone(client: Client, namespace: str, labels: dict[str, str]) -> None:
    """Operators write until they end, and need their permissions for that."""
    async with asyncio.timeout(TIMEOUT):
        while (await client.list(PODS, namespace=namespace, labels=labels)).items:
            await asyncio.sleep(0.2)


async def _remove_namespace(client: Client, name: str, say: Callable[[str], None]) -> None:
    found = await client.find(NAMESPACES, name)
    if found is None or not _is_ours(found):
        return
    foreign = [f"{kind} {one}" async for kind, one in _foreign_objects(client, name)]
    if foreign:
        say(f"Namespace {name} stays, for there is more in it: {', '.join(foreign[:5])}")
        return
    await client.delete(NAMESPACES, name, uid=found["metadata"]["uid"])
    async with asyncio.timeout(TIMEOUT):
        while await client.find(NAMESPACES, name) is not None:
            await asyncio.sleep(0.2)
    say(f"Namespace {name} removed")


async def _foreign_objects(client: Client, namespace: str) -> AsyncIterator[tuple[str, str]]:
    for resource in _CHECKED:
        for body in await _list(client, resource, namespace):
            if body["metadata"]["name"] not in _IN_EVERY_NAMESPACE and not _is_ours(body) and not _owned(body):
                yield resource.kind, body["metadata"]["name"]


async def _list(client: Client, resource: Resource, namespace: str | None) -> list[Manifest]:
    """A kind that the server does not know has no objects."""
    try:
        return (await client.list(resource, namespace=namespace)).items
    except ApiError as error:
        if error.is_not_found:
            return []
        raise


def _owned(body: dict[str, Any]) -> bool:
    """It is deleted with its owner."""
    return bool(body["metadata"].get("ownerReferences"))
