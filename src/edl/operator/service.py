"""The job service inside the operator: what it may know of jobs, where it listens, and how pods find the leader.

Every replica listens, so that taking over costs nothing; only the leader answers, and it says where it is by writing
the EndpointSlice of a Service that has no selector.
"""

import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Sequence
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

from edl.api.core import EndpointSlice, Pod
from edl.jobs.children import Owner
from edl.kube.client import Client
from edl.kube.errors import ApiError
from edl.kube.resource import Resource
from edl.operator.book import Entry, JobBook
from edl.operator.caches import Caches
from edl.operator.identity import Identity, remember_port
from edl.operator.job_service import JobRecord, JobService, Progress, RoleRecord
from edl.operator.job_service.configmap import ConfigMapStore
from edl.operator.job_service.desk import Desk
from edl.operator.job_service.server import Name
from edl.operator.kinds import BY_NAME, JobKey, JobKind
from edl.operator.plans import BY_JOB
from edl.operator.settings import SECRET, SERVICE, WEBHOOK, OperatorSettings, ServiceSettings

log = logging.getLogger(__name__)

SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
PORT_NAME = "https"


def service_names(settings: OperatorSettings) -> list[str]:
    """Under which names the certificate must be good."""
    namespace = settings.namespace
    names = [f"{SERVICE}.{namespace}.svc", f"{SERVICE}.{namespace}", SERVICE, "localhost", "127.0.0.1"]
    names.append(f"{WEBHOOK}.{namespace}.svc")
    told = urlsplit(settings.service.url.replace("{port}", "0")).hostname if settings.service is not None else None
    return [*names, told] if told and told not in names else names


class Records:
    """What the service is told of each job. Made on demand and kept until something about the job changes."""

    def __init__(self, caches: Caches, book: JobBook, identity: Identity) -> None:
        self._caches, self._book, self._identity = caches, book, identity
        self._kept: dict[JobKey, JobRecord] = {}

    def __call__(self, namespace: str, name: str) -> list[JobRecord]:
        """One for each job of this name: kinds have their names for themselves."""
        entries = (entry for entry in self._book.named(namespace, name) if entry.job is not None)
        return [self._kept.get(entry.key) or self._record(entry) for entry in entries]

    def forget(self, key: JobKey) -> None:
        self._kept.pop(key, None)

    def _record(self, entry: Entry) -> JobRecord:
        kind, status, metadata = entry.kind, entry.status, entry.raw.metadata
        scale = kind.scale_of(status)
        all_pods = self._caches.pods_of(entry.uid)
        pods = [pod for pod in all_pods if not pod.finished]
        record = self._kept[entry.key] = JobRecord(
            uid=entry.uid,
            token=self._identity.token(entry.uid),
            tag=kind.tag,
            phase=status.phase,
            size=scale.current if scale is not None else 0,
            target=(scale.target if scale is not None else None) or 0,
            roles={role: _role(kind, metadata.name, role, size) for role, size in kind.roles(status).items()},
            leaving=tuple(sorted(pod.metadata.name for pod in pods if _leaves(pod))),
            pods=frozenset(pod.metadata.name for pod in pods),
            stamp=self._stamp(entry, all_pods) if kind.planned else "",
            bounds=kind.bounds(entry.job),
            run=kind.run(entry.uid, status),
            owner=Owner(entry.raw.api_version, entry.raw.kind, metadata.name, metadata.uid).reference(),
        )
        return record

    def _stamp(self, entry: Entry, pods: Sequence[Pod]) -> str:
        """Of what a trainer asks about: every change of its pods and plans."""
        metadata = entry.raw.metadata
        plans = [plan.metadata for plan in self._caches.plans.by(BY_JOB, metadata.name)]
        seen = [pod.metadata.resource_version for pod in pods]
        seen += [plan.resource_version for plan in plans if plan.namespace == metadata.namespace]
        return ",".join(sorted(seen))


def _leaves(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def _role(kind: JobKind, job: str, role: str, replicas: int) -> RoleRecord:
    addresses = tuple(kind.address(job, role, index) for index in range(replicas))
    return RoleRecord(replicas, addresses if all(addresses) else ())


def _name(key: JobKey) -> Name:
    return key.namespace, key.name, BY_NAME[key.kind].tag


class ServicePart:
    """The job service of one operator. `url` is what pods are told, known once it listens."""

    def __init__(
        self,
        client: Client,
        records: Records,
        identity: Identity,
        settings: ServiceSettings,
        *,
        tls: ssl.SSLContext,
        desk: Desk | None = None,
    ) -> None:
        self.service = JobService(ConfigMapStore(client), records, desk=desk)
        self.url = ""
        self._client, self._records, self._identity, self._settings = client, records, identity, settings
        self._port, self._tls = 0, tls

    def credentials(self, uid: str) -> tuple[str, str]:
        return self._identity.token(uid), self._identity.ca

    def changed(self, key: JobKey) -> None:
        self._records.forget(key)
        self.service.changed(_name(key))

    def report_of(self, key: JobKey) -> tuple[Progress, float] | None:
        """The last that the job said of its training, and how many seconds ago."""
        return self.service.progress(_name(key))

    def pause_of(self, key: JobKey) -> float | None:
        """How long the job's last change of size stopped its training, if it said so."""
        found = self.report_of(key)
        return found[0].pause if found is not None else None

    def silence_of(self, key: JobKey) -> dict[str, float]:
        return self.service.silence(_name(key))

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
        settings, tls = self._settings, self._tls
        known = self._identity.port if settings.port == 0 else 0
        if known:
            try:
                return await self.service.serve(settings.host, known, tls)
            except OSError as error:
                log.warning("port %d, where running pods look for the job service, cannot be had: %s", known, error)
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
