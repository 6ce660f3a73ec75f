"""Reads what a diagnosis of a cluster needs. What the caller may not read is noted, and the rest goes on."""

import asyncio
from typing import Any

import msgspec

from edl.api.crds import crds
from edl.api.kinds import JOB_RESOURCE, KINDS
from edl.doctor.cluster import ClusterSeen
from edl.doctor.finding import Data
from edl.kube.client import Client
from edl.kube.errors import ApiError
from edl.kube.lease import LEASES
from edl.kube.resource import Resource
from edl.kube.transport import Request
from edl.operator.resources import CRDS, NODES, resource_of
from edl.operator.settings import BRAIN, LEASE, SERVICE, WEBHOOK

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


async def read_cluster(client: Client, namespace: str) -> ClusterSeen:
    """`namespace` is the operator's."""
    answer = await client.raw(Request("GET", "/version"))
    version = str(msgspec.json.decode(answer.body, type=dict[str, Any]).get("gitVersion", "unknown"))
    reader = Reader(client)
    names = [crd["metadata"]["name"] for crd in crds()]
    found = await asyncio.gather(*(reader.one(CRDS, name) for name in names))
    jobs = [await reader.all(resource_of(kind)) for kind in KINDS if kind is not JOB_RESOURCE]
    unread = {what.partition("/")[2] for what in reader.denied}
    return ClusterSeen(
        version=version,
        kinds={name: crd for name, crd in zip(names, found, strict=True) if name not in unread},
        lease=await reader.one(LEASES, LEASE, namespace),
        deployment=await reader.one(DEPLOYMENTS, "edl-operator", namespace),
        service=await reader.one(SLICES, SERVICE, namespace),
        webhook=await reader.one(WEBHOOKS, WEBHOOK),
        brain=await reader.one(DEPLOYMENTS, BRAIN, namespace),
        claim=await reader.one(CLAIMS, BRAIN, namespace),
        nodes=await reader.all(NODES),
        jobs=[job for kind in jobs for job in kind],
        denied=reader.denied,
    )
