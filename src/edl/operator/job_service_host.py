"""Hosts the job service inside the operator: describes jobs to it, listens, and publishes the leader's address.

Every replica listens, so that taking over costs nothing; only the leader answers, and it publishes its address in the
EndpointSlice of a Service that has no selector.
"""

import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

from edl.api import annotations
from edl.api.kubernetes.core import EndpointSlice, Pod
from edl.api.labels import LABEL_ROLE
from edl.api.status import MemberChange, RootCause
from edl.jobs.core.children import Owner
from edl.jobs.core.kind import Companion, JobKind
from edl.jobs.registry import JOB_KIND_BY_CRD, JOB_KINDS
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError
from edl.kube.rest.resource import Resource
from edl.ledger.job_use import KeptLedger
from edl.operator.credentials.identity import Identity, remember_port
from edl.operator.job_service import JobRecord, JobService, RoleRecord
from edl.operator.job_service.configmap_store import ConfigMapStore
from edl.operator.job_service.record import Name
from edl.operator.job_service.trainer_calls import TrainerRequests
from edl.operator.reconcile.caches import Caches
from edl.operator.reconcile.companion_cache import BY_JOB
from edl.operator.reconcile.job_cache import Entry, JobCache
from edl.operator.reconcile.job_key import JobKey
from edl.operator.reconcile.shown_progress import shown_change
from edl.operator.settings import SECRET, SERVICE, WEBHOOK, OperatorSettings, ServiceSettings
from edl.operator.throughput.sampling import Sampler
from edl.protocol.progress import LastProgress, Progress
from edl.protocol.rounds import RoundChange
from edl.serving.lasting_port import serve_again
from edl.throughput.measurements import Measurements

log = logging.getLogger(__name__)

SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
PORT_NAME = "https"


def service_names(settings: OperatorSettings) -> list[str]:
    """Under which names the certificate must be good."""
    namespace = settings.namespace
    names = [f"{SERVICE}.{namespace}.svc", f"{SERVICE}.{namespace}", SERVICE, "localhost", "127.0.0.1"]
    names.append(f"{WEBHOOK}.{namespace}.svc")
    public = urlsplit(settings.service.url.replace("{port}", "0")).hostname if settings.service is not None else None
    return [*names, public] if public and public not in names else names


class Records:
    """Records that describe jobs to the service. Made on demand and kept until something about the job changes."""

    def __init__(self, caches: Caches, jobs: JobCache, identity: Identity) -> None:
        self._caches, self._jobs, self._identity = caches, jobs, identity
        self._kept: dict[JobKey, JobRecord] = {}

    def __call__(self, namespace: str, name: str) -> list[JobRecord]:
        """One for each job of this name: kinds have their names for themselves."""
        entries = (entry for entry in self._jobs.named(namespace, name) if entry.job is not None)
        return [self._kept.get(entry.key) or self._record(entry) for entry in entries]

    def forget(self, key: JobKey) -> None:
        self._kept.pop(key, None)

    def _record(self, entry: Entry) -> JobRecord:
        kind, status, metadata = entry.kind, entry.status, entry.raw.metadata
        scale = kind.scale_of(status)
        former = metadata.annotations.get(annotations.RESTORED_FROM, "") if kind.is_restored else ""
        all_pods = self._caches.pods_of(entry.key, entry.uid)
        pods = [pod for pod in all_pods if not pod.finished]
        record = self._kept[entry.key] = JobRecord(
            uid=entry.uid,
            token=self._identity.token(entry.uid, entry.created),
            former_tokens=self._identity.former_tokens(entry.uid, entry.created),
            restored_from=former,
            state_keys=self._identity.state_keys(former) if former else (),
            tag=kind.tag,
            phase=status.phase,
            size=scale.current if scale is not None else 0,
            target=(scale.target if scale is not None else None) or 0,
            nodes=len({pod.spec.node_name for pod in pods if _counts(pod, kind) and pod.spec.node_name}),
            roles={role: _role(kind, metadata.name, role, size) for role, size in kind.roles(status).items()},
            leaving=tuple(sorted(pod.metadata.name for pod in pods if _leaves(pod))),
            pods=frozenset(pod.metadata.name for pod in pods),
            failed=frozenset(pod.metadata.name for pod in all_pods if pod.finished and not _ended_well(pod)),
            succeeded=frozenset(pod.metadata.name for pod in all_pods if pod.finished and _ended_well(pod)),
            stamp=self._stamp(entry, kind.companion, all_pods) if kind.companion is not None else "",
            bounds=kind.bounds(entry.job),
            fail_fast=kind.fails_fast and annotations.fails_fast(metadata.annotations),
            run=kind.run(entry.uid, status),
            owner=Owner(entry.raw.api_version, entry.raw.kind, metadata.name, metadata.uid).reference(),
        )
        return record

    def _stamp(self, entry: Entry, companion: Companion, pods: Sequence[Pod]) -> str:
        """Differs after every change of the job's pods and plans, which trainers wait for."""
        metadata = entry.raw.metadata
        companions = self._caches.companions[companion.kind.crd_name]
        plans = [plan.metadata for plan in companions.by(BY_JOB, metadata.name)]
        seen = [pod.metadata.resource_version for pod in pods]
        seen += [plan.resource_version for plan in plans if plan.namespace == metadata.namespace]
        return ",".join(sorted(seen))


def _counts(pod: Pod, kind: JobKind) -> bool:
    """Whether it is one of those that the job's size counts."""
    return pod.metadata.labels.get(LABEL_ROLE) == kind.leading_role and not _leaves(pod)


def _leaves(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def _ended_well(pod: Pod) -> bool:
    """By itself: whoever was asked to go has not done what others still do."""
    return pod.status.phase == "Succeeded" and not _leaves(pod)


def _role(kind: JobKind, job: str, role: str, replicas: int) -> RoleRecord:
    addresses = tuple(kind.address(job, role, index) for index in range(replicas))
    return RoleRecord(replicas, addresses if all(addresses) else ())


def _name(key: JobKey) -> Name:
    return key.namespace, key.name, JOB_KIND_BY_CRD[key.kind].tag


def _keys(names: Iterable[Name]) -> list[JobKey]:
    kinds = {kind.tag: kind.crd_name for kind in JOB_KINDS}
    return [JobKey(kinds[tag], namespace, name) for namespace, name, tag in sorted(names) if tag in kinds]


class JobServiceHost:
    """The job service of one operator. `url` is the address given to pods, known once it listens."""

    def __init__(
        self,
        client: Client,
        records: Records,
        identity: Identity,
        settings: ServiceSettings,
        *,
        tls: ssl.SSLContext,
        trainer_requests: TrainerRequests | None = None,
    ) -> None:
        self.service = JobService(ConfigMapStore(client), records, trainer_requests=trainer_requests)
        self.url = ""
        self.published = False
        """Pods that ask for the job service are led here."""
        self._client, self._records, self._identity, self._settings = client, records, identity, settings
        self._port, self._tls = 0, tls

    def credentials(self, uid: str, created: float) -> tuple[str, str]:
        return self._identity.token(uid, created), self._identity.trusted

    def changed(self, key: JobKey) -> None:
        self._records.forget(key)
        self.service.changed(_name(key))

    def report_of(self, key: JobKey) -> tuple[Progress, float] | None:
        """The last report of the job's progress, and its age in seconds."""
        return self.service.progress(_name(key))

    def progress_of(self, key: JobKey) -> LastProgress | None:
        return self.service.last_progress(_name(key))

    def take_reported(self) -> list[JobKey]:
        """Jobs that reported progress since the last call."""
        return _keys(self.service.take_reported())

    def take_hopeless(self) -> list[JobKey]:
        """Jobs whose script turned out not to work since the last call."""
        return _keys(self.service.take_hopeless())

    def hopeless_of(self, key: JobKey) -> RootCause | None:
        return self.service.hopeless(_name(key))

    def state_wait_of(self, key: JobKey) -> str | None:
        return self.service.state_wait(_name(key))

    def take_state_waits(self) -> list[JobKey]:
        """Jobs that began to wait for the state that they were restored with, or have it, since the last call."""
        return _keys(self.service.take_state_waits())

    def change_of(self, key: JobKey) -> MemberChange | None:
        """How the job's workers came into the round that they train in."""
        change = self.service.change(_name(key))
        return shown_change(change) if change is not None else None

    def take_changes(self) -> dict[JobKey, RoundChange]:
        """Changes of members that were made since the last call."""
        taken = self.service.take_changes()
        return {key: taken[_name(key)] for key in _keys(taken)}

    def pause_of(self, key: JobKey) -> float | None:
        """How long the job's last change of size stopped its training, if it said so."""
        found = self.report_of(key)
        return found[0].pause if found is not None else None

    async def load_ledger(self, key: JobKey, uid: str) -> KeptLedger | None:
        return await self.service.load_ledger(_name(key), uid)

    async def keep_ledger(self, key: JobKey, uid: str, kept: KeptLedger) -> None:
        await self.service.keep_ledger(_name(key), uid, kept)

    def silence_of(self, key: JobKey) -> dict[str, float]:
        return self.service.silence(_name(key))

    def sampler_of(self, key: JobKey) -> Sampler | None:
        return self.service.sampler(_name(key))

    async def keep_measured(self, key: JobKey) -> None:
        await self.service.keep_measured(_name(key))

    async def read_measured(self, key: JobKey) -> Measurements | None:
        tag = JOB_KIND_BY_CRD[key.kind].tag
        record = next((one for one in self._records(key.namespace, key.name) if one.tag == tag), None)
        return await self.service.read_measured(key.namespace, key.name, record) if record is not None else None

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
        settings = self._settings

        async def serve(port: int) -> web.AppRunner:
            return await self.service.serve(settings.host, port, self._tls)

        return await (serve(settings.port) if settings.port else serve_again(serve, settings.host, self._identity.port))

    @contextlib.asynccontextmanager
    async def leading(self, namespace: str) -> AsyncIterator[None]:
        self.service.lead()
        try:
            if not self._settings.url:
                await self._publish(namespace)
            if self._settings.port == 0 and self._identity.port != self._port:
                await remember_port(self._client, namespace, SECRET, self._port)
            self.published = True
            yield
        finally:
            self.published = False
            self.service.retire()

    async def _publish(self, namespace: str) -> None:
        """Points the Service to us. Clients that still reach our predecessor get 503 and try again."""
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
