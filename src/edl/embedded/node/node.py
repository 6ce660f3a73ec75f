"""A process node: registers, runs the pods that are bound to it, reports their status.

One informer, one queue keyed by pod uid, a few workers; per pod there is no task unless something is under way for it.
"""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from edl.api.kubernetes import quantity
from edl.embedded.kept_logs import KeptLogs
from edl.embedded.node.host import NodeHost
from edl.embedded.node.network.endpoint import Endpoint, LogFile
from edl.embedded.node.pod.admission import evicted, resize_refusal, shortage
from edl.embedded.node.pod.devices import Devices
from edl.embedded.node.pod.directories import PodDirectories
from edl.embedded.node.pod.launch import LaunchSettings, is_device
from edl.embedded.node.pod.lifecycle import Backoff
from edl.embedded.node.pod.references import ReferenceResolver
from edl.embedded.node.pod.status_writer import StatusWriter
from edl.embedded.node.pod.types import Pod
from edl.embedded.node.pod.worker import PodWorker
from edl.embedded.node.pod_context import PodContext
from edl.embedded.node.pressure import HOLD_SECONDS, Pressure
from edl.embedded.node.registration import HEARTBEAT_SECONDS, Registration, node_object, node_status
from edl.embedded.pod_requests import requests_of
from edl.embedded.resources import PODS
from edl.embedded.tasks import background, work
from edl.kube.cache.indexes import by_field
from edl.kube.cache.informer import Informer
from edl.kube.controllers.workqueue import WorkQueue
from edl.kube.rest.errors import KubeError

log = logging.getLogger(__name__)

_WORKERS = 16
_MAX_PODS = "1000"


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    capacity: Mapping[str, str]
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    first_device: int = 0
    shutdown_grace: float = 2.0
    """How long pods may take to stop when the node does; their own grace if that is shorter."""
    backoff: Backoff = msgspec.field(default_factory=Backoff)
    heartbeat: float = HEARTBEAT_SECONDS
    pressure_hold: float = HOLD_SECONDS


class ProcessNode:
    """`tls(address)` makes the endpoint's TLS context for an address; None serves without (tests)."""

    def __init__(
        self, host: NodeHost, settings: NodeSettings, *, tls: Callable[[str], ssl.SSLContext] | None = None
    ) -> None:
        self.name = settings.name
        self.address = host.addresses.take()
        self.port = 0
        self._host = host
        self._tls = tls
        self._capacity = {"pods": _MAX_PODS, **settings.capacity}
        self._settings = settings
        self._status_writer = StatusWriter(host.client)
        body = node_object(settings.name, settings.labels, settings.taints)
        self._registration = Registration(host.client, settings.name, body, self._status)
        self._leaving = False
        self._root = host.settings.root / "pods" / self.name
        self._context = self._pod_context()
        self._queue: WorkQueue[str] = WorkQueue()
        self._workers: dict[str, PodWorker] = {}
        self._informer: Informer[Pod] = Informer(
            host.client,
            PODS,
            Pod,
            scope={"fields": f"spec.nodeName={self.name}"},
            indexes={"uid": by_field("metadata.uid")},
        )

    def _pod_context(self) -> PodContext:
        host, settings = self._host, self._settings
        devices = sum(quantity.whole(count) for name, count in self._capacity.items() if is_device(name))
        return PodContext(
            runtime=host.runtime,
            probe_runner=host.probe_runner,
            references=ReferenceResolver(
                host.client, host.services, allocatable=self._capacity, variables=host.settings.variables
            ),
            services=host.services,
            images=host.images,
            settings=LaunchSettings(
                mode=host.runtime.mode,
                caller=host.settings.caller,
                working_dir=host.settings.working_dir,
                extra={},
            ),
            addresses=host.addresses,
            devices=Devices(devices, first=settings.first_device),
            host_ip=self.address,
            root=self._root,
            emit_event=host.emit_event,
            keep_log=KeptLogs(host.settings.root / "logs").keep,
            backoff=settings.backoff,
            pressure=Pressure(hold=settings.pressure_hold, changed=self._registration.hurry),
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Ready when this gives way; its pods are stopped (killed, if they do not go by themselves) when it ends."""
        endpoint = Endpoint(self, self._host.runtime)
        async with AsyncExitStack() as stack:
            tls = self._tls(self.address) if self._tls is not None else None
            port = await stack.enter_async_context(endpoint.serving(self.address, tls))
            self._informer.add_handler(self.name, _uids, self._queue.add)
            stack.push_async_callback(self._close)
            await stack.enter_async_context(background(self._informer.run()))
            await self._informer.wait_synced()
            self._sweep_directories()
            workers = [work(self._queue, self._sync, f"node {self.name}") for _ in range(_WORKERS)]
            await stack.enter_async_context(background(*workers))
            stack.enter_context(self._host.services.listening(self._refresh_hosts))
            self.port = port
            await self._registration.register()
            await stack.enter_async_context(background(self._registration.beat(self._settings.heartbeat)))
            yield

    async def leave(self) -> None:
        """Report at once that this node stops, instead of letting its lease run out."""
        self._leaving = True
        with contextlib.suppress(KubeError):
            await self._registration.post()

    def _status(self) -> dict[str, Any]:
        return node_status(
            name=self.name,
            address=self.address,
            port=self.port,
            capacity=self._capacity,
            mode=self._host.runtime.mode,
            ready=not self._leaving,
            now=self._context.clock(),
            pressure=self._context.pressure.active(self._context.clock()),
        )

    async def _close(self) -> None:
        """Stop what runs. Nothing is reported of it: the next start says that it was lost, and to whom it matters."""
        await asyncio.gather(*(worker.close(self._settings.shutdown_grace) for worker in self._workers.values()))

    # Pods

    async def _sync(self, uid: str) -> float | None:
        pod = next(iter(self._informer.by("uid", uid)), None)
        worker = self._workers.get(uid)
        if worker is None:
            if pod is None:
                return None
            if pod.finished:
                if pod.metadata.deletion_timestamp is not None:
                    await self._status_writer.delete(pod)
                return None
            worker = self._admit(pod)
        if pod is None:
            worker.gone = True
        else:
            worker.update(pod)
            self._resize(worker)
            if pod.finished:
                self._retry_resizes()
        delay = worker.sync()
        if worker.gone:
            if worker.idle:
                del self._workers[uid]
                self._retry_resizes()
                await worker.forget()
            return delay
        return await self._report(worker, delay)

    async def _report(self, worker: PodWorker, delay: float | None) -> float | None:
        later = await self._status_writer.report(worker)
        if worker.idle and worker.written.get("phase") in ("Succeeded", "Failed"):
            worker.release()
        if worker.idle and worker.pod.metadata.deletion_timestamp is not None:
            await self._status_writer.delete(worker.pod)
            return None
        times = [time for time in (delay, later) if time is not None]
        return min(times) if times else None

    def _resize(self, worker: PodWorker) -> None:
        if worker.resized is None or worker.pod.finished:
            return
        others = [one.requests for one in self._workers.values() if one is not worker and not one.pod.finished]
        refusal = resize_refusal(requests_of(worker.resized), worker.requests, others, self._capacity)
        worker.resize(refusal)
        if refusal is None:
            self._retry_resizes()

    def _retry_resizes(self) -> None:
        """There may be more free capacity now."""
        for worker in self._workers.values():
            if worker.resize_refusal is not None:
                self._queue.add(worker.uid)

    def _admit(self, pod: Pod) -> PodWorker:
        others = [one.requests for one in self._workers.values() if not one.pod.finished]
        refusal = shortage(pod, others, self._capacity) or self._pressure_refusal()
        worker = PodWorker(pod, self._context, self._queue.add)
        self._workers[worker.uid] = worker
        if refusal is not None and not pod.status.container_statuses:
            worker.refuse(*refusal)
        return worker

    def _pressure_refusal(self) -> tuple[str, str] | None:
        conditions = self._context.pressure.active(self._context.clock())
        return evicted(conditions) if conditions else None

    def _refresh_hosts(self) -> None:
        for worker in self._workers.values():
            if not worker.idle and not worker.gone:
                worker.write_hosts()

    def _sweep_directories(self) -> None:
        """What an earlier run kept of pods that are gone by now."""
        self._root.mkdir(parents=True, exist_ok=True)
        alive = {pod.metadata.uid for pod in self._informer.all()}
        for path in self._root.iterdir():
            if path.name not in alive:
                PodDirectories(path).remove()

    # For the endpoint

    def worker(self, namespace: str, name: str) -> PodWorker | None:
        pod = self._informer.get((namespace, name))
        return self._workers.get(pod.metadata.uid) if pod is not None else None

    def log_file(self, namespace: str, name: str, container: str, *, previous: bool) -> LogFile | str:
        pod = self._informer.get((namespace, name))
        if pod is None:
            return f'pod "{name}" not found'
        worker = self._workers.get(pod.metadata.uid)
        run = _run_of(pod, worker, container)
        directories = worker.directories if worker is not None else PodDirectories(self._root / pod.metadata.uid)
        if previous:
            path = directories.log(container, run - 1)
            missing = f'previous terminated container "{container}" in pod "{name}" not found'
            return LogFile(path, None, run - 1) if run > 0 and _exists(path) else missing
        path = directories.log(container, run)
        if not _exists(path):
            return f'container "{container}" in pod "{name}" is waiting to start: ContainerCreating'
        return LogFile(path, worker, run)


def _run_of(pod: Pod, worker: PodWorker | None, container: str) -> int:
    if worker is not None and container in worker.records:
        return worker.records[container].restarts
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    return next((status.restart_count for status in statuses if status.name == container), 0)


def _exists(path: Path) -> bool:
    return path.exists()


def _uids(old: Pod | None, new: Pod | None) -> list[str]:
    return [pod.metadata.uid for pod in (old, new) if pod is not None]
