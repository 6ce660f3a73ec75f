"""The job service inside the operator: what it may know of jobs, where it listens, and how pods find the leader.

Every replica listens, so that taking over costs nothing; only the leader answers, and it says where it is by writing
the EndpointSlice of a Service that has no selector.
"""

import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from edl.api.core import EndpointSlice, Pod
from edl.api.training_job import TrainingScale
from edl.api.training_roles import TRAINER
from edl.jobs.children import Owner
from edl.jobs.slots import slot_name
from edl.kube.client import Client
from edl.kube.errors import ApiError
from edl.kube.objects import Key
from edl.kube.resource import Resource
from edl.operator.book import Entry, JobBook
from edl.operator.caches import Caches
from edl.operator.identity import Identity, remember_port
from edl.operator.job_service import JobRecord, JobService, RoleRecord
from edl.operator.job_service.configmap import ConfigMapStore
from edl.operator.settings import SECRET, SERVICE, OperatorSettings, ServiceSettings

log = logging.getLogger(__name__)

SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
PORT_NAME = "https"


def service_names(settings: OperatorSettings) -> list[str]:
    """Under which names the certificate must be good."""
    namespace = settings.namespace
    names = [f"{SERVICE}.{namespace}.svc", f"{SERVICE}.{namespace}", SERVICE, "localhost", "127.0.0.1"]
    service = settings.service
    if service is not None and service.address:
        names.append(service.address)
    return names


class Records:
    """What the service is told of each job. Made on demand and kept until something about the job changes."""

    def __init__(self, caches: Caches, book: JobBook, identity: Identity) -> None:
        self._caches, self._book, self._identity = caches, book, identity
        self._kept: dict[Key, JobRecord] = {}

    def __call__(self, namespace: str, name: str) -> JobRecord | None:
        key = (namespace, name)
        record = self._kept.get(key)
        if record is None:
            entry = self._book.entry(key)
            if entry is None or entry.job is None:
                return None
            record = self._kept[key] = self._record(entry)
        return record

    def forget(self, key: Key) -> None:
        self._kept.pop(key, None)

    def _record(self, entry: Entry) -> JobRecord:
        status, metadata = entry.status, entry.raw.metadata
        scale = status.scale_status or TrainingScale()
        pods = [pod for pod in self._caches.pods_of(entry.uid) if not pod.finished]
        return JobRecord(
            uid=entry.uid,
            token=self._identity.token(entry.uid),
            phase=status.phase,
            size=scale.current,
            target=scale.target or 0,
            roles={role.role: _role(metadata.name, role.role, role.desired) for role in status.replica_statuses},
            leaving=tuple(sorted(pod.metadata.name for pod in pods if _leaves(pod))),
            pods=frozenset(pod.metadata.name for pod in pods),
            owner=Owner(entry.raw.api_version, entry.raw.kind, metadata.name, metadata.uid).reference(),
        )


def _leaves(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def _role(job: str, role: str, replicas: int) -> RoleRecord:
    """Trainers have a name per slot. The others say where they are when they claim theirs."""
    if role != TRAINER:
        return RoleRecord(replicas)
    names = (f"{slot_name(job, role, index)}.{job}-{role}" for index in range(replicas))
    return RoleRecord(replicas, tuple(names))


class ServicePart:
    """The job service of one operator. `url` is what pods are told, known once it listens."""

    def __init__(self, client: Client, records: Records, identity: Identity, settings: ServiceSettings) -> None:
        self.service = JobService(ConfigMapStore(client), records)
        self.url = ""
        self._client, self._records, self._identity, self._settings = client, records, identity, settings
        self._port = 0

    def credentials(self, uid: str) -> tuple[str, str]:
        return self._identity.token(uid), self._identity.ca

    def changed(self, key: Key) -> None:
        self._records.forget(key)
        self.service.changed(*key)

    def pause_of(self, key: Key) -> float | None:
        """How long the job's last change of size stopped its training, if it said so."""
        found = self.service.progress(*key)
        return found[0].pause if found is not None else None

    @contextlib.asynccontextmanager
    async def listening(self, namespace: str) -> AsyncIterator[None]:
        runner = await self._serve()
        try:
            self._port = runner.addresses[0][1]
            self.url = self._settings.url.replace("{port}", str(self._port))
            self.url = self.url or f"https://{SERVICE}.{namespace}.svc:{self._port}"
            log.info("the job service listens on port %d, pods reach it at %s", self._port, self.url)
            yield
        finally:
            await runner.cleanup()

    async def _serve(self) -> web.AppRunner:
        """If any port will do, the one where running pods know us is best."""
        settings, tls = self._settings, self._identity.tls()
        known = self._identity.port if settings.port == 0 else 0
        if known:
            with contextlib.suppress(OSError):
                return await self.service.serve(settings.host, known, tls)
        return await self.service.serve(settings.host, settings.port, tls)

    @contextlib.asynccontextmanager
    async def leading(self, namespace: str) -> AsyncIterator[None]:
        self.service.lead()
        try:
            if not self._settings.url:
                await self._publish(namespace)
            if self._settings.port == 0 and self._identity.port != self._port:
                await remember_port(self._client, namespace, SECRET, self._port)
            yield
        finally:
            self.service.retire()

    async def _publish(self, namespace: str) -> None:
        """From now on the Service leads to us. Clients that reach our predecessor are told 503 and come again."""
        try:
            found = await self._client.get(SLICES, SERVICE, namespace=namespace, type=EndpointSlice)
        except ApiError as error:
            if not error.is_not_found:
                raise
            await self._client.create(SLICES, self._slice(namespace), namespace=namespace)
        else:
            body = self._slice(namespace, resourceVersion=found.metadata.resource_version)
            await self._client.replace(SLICES, SERVICE, body, namespace=namespace)

    def _slice(self, namespace: str, **metadata: str) -> dict[str, Any]:
        address = self._settings.address
        labels = {"kubernetes.io/service-name": SERVICE, "endpointslice.kubernetes.io/managed-by": "edl.dev"}
        return {
            "apiVersion": SLICES.api_version,
            "kind": SLICES.kind,
            "metadata": {"name": SERVICE, "namespace": namespace, "labels": labels, **metadata},
            "addressType": "IPv6" if ":" in address else "IPv4",
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
            "ports": [{"name": PORT_NAME, "port": self._port, "protocol": "TCP"}],
        }
