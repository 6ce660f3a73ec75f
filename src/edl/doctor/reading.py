"""Reads the objects that a diagnosis of a cluster needs. What the caller may not read is recorded, not fatal."""

import asyncio
from typing import Any

import msgspec

from edl.api.labels import LABEL_UID
from edl.doctor.cluster import ClusterObjects, examine_leader
from edl.doctor.finding import Data, Finding
from edl.jobs.crds import crds
from edl.jobs.registry import JOB_KINDS
from edl.kube.controllers.lease import LEASES
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError
from edl.kube.rest.resource import Resource
from edl.kube.rest.transport import Request
from edl.operator.credentials.identity import Identity, read_identity
from edl.operator.credentials.own_secret import find_secret
from edl.operator.resources import CRDS, NODES, PODS, SECRETS, resource_of
from edl.operator.settings import BRAIN, LEASE, SECRET, SERVICE, WEBHOOK, cluster_name

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
WEBHOOKS = Resource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False
)


class Reader:
    def __init__(self, client: Client) -> None:
        self._client = client
        self.denied: list[str] = []

    async def one(self, resource: Resource, name: str, namespace: str | None = None) -> Data | None:
        """None: it is not there, or its kind is not, or we may not know."""
        try:
            return await self._client.get(resource, name, namespace=namespace)
        except ApiError as error:
            self._note(error, f"{resource.plural}/{name}")
            return None

    async def all(self, resource: Resource) -> list[Data]:
        try:
            return (await self._client.list(resource)).items
        except ApiError as error:
            self._note(error, resource.plural)
            return []

    def _note(self, error: ApiError, what: str) -> None:
        if error.code == 403:
            self.denied.append(what)
        elif not error.is_not_found:
            raise error


async def read_leader(client: Client, namespace: str, now: float) -> Finding | None:
    """Whether an operator leads; None if we may not know."""
    reader = Reader(client)
    lease = await reader.one(LEASES, LEASE, namespace)
    return None if reader.denied else examine_leader(lease, now)


async def read_cluster(client: Client, namespace: str) -> ClusterObjects:
    """`namespace` is the operator's."""
    answer = await client.raw(Request("GET", "/version"))
    version = str(msgspec.json.decode(answer.body, type=dict[str, Any]).get("gitVersion", "unknown"))
    reader = Reader(client)
    names = [crd["metadata"]["name"] for crd in crds()]
    found = await asyncio.gather(*(reader.one(CRDS, name) for name in names))
    jobs = [await reader.all(resource_of(kind)) for kind in JOB_KINDS]
    identity = await read_identity_of(client, namespace)
    unread = {what.partition("/")[2] for what in reader.denied}
    return ClusterObjects(
        version=version,
        kinds={name: crd for name, crd in zip(names, found, strict=True) if name not in unread},
        lease=await reader.one(LEASES, LEASE, namespace),
        deployment=await reader.one(DEPLOYMENTS, "edl-operator", namespace),
        service=await reader.one(SLICES, SERVICE, namespace),
        webhook=await _webhook(reader, namespace),
        brain=await reader.one(DEPLOYMENTS, BRAIN, namespace),
        claim=await reader.one(CLAIMS, BRAIN, namespace),
        nodes=await reader.all(NODES),
        jobs=[job for kind in jobs for job in kind],
        identity=identity,
        secrets=await _of_jobs(client, SECRETS) if identity is not None else [],
        pods=await _of_jobs(client, PODS) if identity is not None else [],
        denied=reader.denied,
    )


async def _webhook(reader: Reader, namespace: str) -> Data | None:
    """Of an installation that is limited to namespaces, if it is in this one; else the one that there is."""
    limited = cluster_name(WEBHOOK, namespace, limited=True)
    own = await reader.one(WEBHOOKS, limited) if limited != WEBHOOK else None
    return own or await reader.one(WEBHOOKS, WEBHOOK)


async def read_identity_of(client: Client, namespace: str) -> Identity | None:
    """Administrators alone may read it; that others may not is no news."""
    try:
        return read_identity(await find_secret(client, namespace, SECRET))
    except ApiError as error:
        if error.is_forbidden:
            return None
        raise


async def _of_jobs(client: Client, resource: Resource) -> list[Data]:
    try:
        return (await client.list(resource, labels=LABEL_UID)).items
    except ApiError as error:
        if error.is_forbidden:
            return []
        raise
