"""A process node: registers, runs the pods that are bound to it, reports what becomes of them.

One informer, one queue keyed by pod uid, a few workers; per pod there is no task unless something is under way for it.
"""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edl.api import quantity
from edl.embedded.node.admission import shortage
from edl.embedded.node.devices import Devices
from edl.embedded.node.endpoint import Endpoint, LogPlace
from edl.embedded.node.equipment import Equipment
from edl.embedded.node.gathering import Gatherer
from edl.embedded.node.host import NodeHost
from edl.embedded.node.launching import Settings, is_device
from edl.embedded.node.lifecycle import Backoff
from edl.embedded.node.places import PodPlaces
from edl.embedded.node.pod import Pod
from edl.embedded.node.registration import Registration, node_object, node_status
from edl.embedded.node.reporting import PODS, Reporter
from edl.embedded.node.worker import PodWorker
from edl.embedded.tasks import background, work
from edl.kube.errors import KubeError
from edl.kube.fields import by_field
from edl.kube.informer import Informer
from edl.kube.workqueue import WorkQueue

log = logging.getLogger(__name__)

_WORKERS = 16
_MAX_PODS = "1000"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    name: str
    capacity: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    first_device: int = 0
    shutdown_grace: float = 2.0
    """How long pods may take to stop when the node does; their own grace if that is shorter."""
    backoff: Backoff = field(default_factory=Backoff)


class ProcessNode:
    """`tls(address)` makes the endpoint's TLS context for an address; None serves without (tests)."""

    def __init__(
        self, host: NodeHost, settings: NodeSettings, *, tls: Callable[[str], ssl.SSLContext] | None = None
    ) -> None:
        self.name = settings.name
        self.address = host.addresses.take()
        self._host = host
        self._tls = tls
        self._capacity = {"pods": _MAX_PODS, **settings.capacity}
        self._settings = settings
        self._reporter = Reporter(host.client)
        body = node_object(settings.name, settings.labels, settings.taints)
        self._registration = Registration(host.client, settings.name, body)
        self._root = host.settings.root / "pods" / self.name
        self._equipment = self._equip()
        self._queue: WorkQueue[str] = WorkQueue()
        self._workers: dict[str, PodWorker] = {}
        self._informer: Informer[Pod] = Informer(
            host.client,
            PODS,
            Pod,
            scope={"fields": f"spec.nodeName={self.name}"},
            indexes={"uid": by_field("metadata.uid")},
        )

    def _equip(self) -> Equipment:
        host, settings = self._host, self._settings
        devices = sum(quantity.whole(count) for name, count in self._capacity.items() if is_device(name))
        return Equipment(
            runtime=host.runtime,
            surveyor=host.surveyor,
            gatherer=Gatherer(
                host.client, host.directory, allocatable=self._capacity, variables=host.settings.variables
            ),
            directory=host.directory,
            images=host.images,
            settings=Settings(
                mode=host.runtime.mode,
                caller=host.settings.caller,
                working_dir=host.settings.working_dir,
                extra={},
            ),
            addresses=host.addresses,
            devices=Devices(devices, first=settings.first_device),
            host_ip=self.address,
            root=self._root,
            announce=host.announce,
            backoff=settings.backoff,
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
            await stack.enter_async_context(background(self._informer.run(), self._registration.beat()))
            await self._informer.wait_synced()
            self._sweep_directories()
            workers = [work(self._queue, self._sync, f"node {self.name}") for _ in range(_WORKERS)]
            await stack.enter_async_context(background(*workers))
            stack.enter_context(self._host.directory.listening(self._refresh_hosts))
            await self._registration.register(self._status(port, ready=True))
            self.port = port
            yield

    async def leave(self) -> None:
        """Tell the cluster at once that this node stops, in place of letting its lease run out."""
        with contextlib.suppress(KubeError):
            await self._registration.write(self._status(self.port, ready=False))

    def _status(self, port: int, *, ready: bool) -> dict[str, Any]:
        return node_status(
            name=self.name,
            address=self.address,
            port=port,
            capacity=self._capacity,
            mode=self._host.runtime.mode,
            ready=ready,
            now=self._equipment.clock(),
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
                    await self._reporter.delete(pod)
                return None
            worker = self._admit(pod)
        if pod is None:
            worker.gone = True
        else:
            worker.update(pod)
        delay = worker.sync()
        if worker.gone:
            if worker.quiet:
                del self._workers[uid]
                await worker.forget()
            return delay
        return await self._report(worker, delay)

    async def _report(self, worker: PodWorker, delay: float | None) -> float | None:
        later = await self._reporter.report(worker)
        if worker.quiet and worker.written.get("phase") in ("Succeeded", "Failed"):
            worker.release()
        if worker.quiet and worker.pod.metadata.deletion_timestamp is not None:
            await self._reporter.delete(worker.pod)
            return None
        times = [time for time in (delay, later) if time is not None]
        return min(times) if times else None

    def _admit(self, pod: Pod) -> PodWorker:
        others = [one.requests for one in self._workers.values() if not one.pod.finished]
        refusal = shortage(pod, others, self._capacity)
        worker = PodWorker(pod, self._equipment, self._queue.add)
        self._workers[worker.uid] = worker
        if refusal is not None and not pod.status.container_statuses:
            worker.refuse(*refusal)
        return worker

    def _refresh_hosts(self) -> None:
        for worker in self._workers.values():
            if not worker.quiet and not worker.gone:
                worker.write_hosts()

    def _sweep_directories(self) -> None:
        """What an earlier run kept of pods that are gone by now."""
        self._root.mkdir(parents=True, exist_ok=True)
        alive = {pod.metadata.uid for pod in self._informer.all()}
        for path in self._root.iterdir():
            if path.name not in alive:
                PodPlaces(path).remove()

    # What the endpoint asks

    def worker(self, namespace: str, name: str) -> PodWorker | None:
        pod = self._informer.get((namespace, name))
        return self._workers.get(pod.metadata.uid) if pod is not None else None

    def log_place(self, namespace: str, name: str, container: str, *, previous: bool) -> LogPlace | str:
        pod = self._informer.get((namespace, name))
        if pod is None:
            return f'pod "{name}" not found'
        worker = self._workers.get(pod.metadata.uid)
        run = _run_of(pod, worker, container)
        places = worker.places if worker is not None else PodPlaces(self._root / pod.metadata.uid)
        if previous:
            path = places.log(container, run - 1)
            missing = f'previous terminated container "{container}" in pod "{name}" not found'
            return LogPlace(path, None, run - 1) if run > 0 and _exists(path) else missing
        path = places.log(container, run)
        if not _exists(path):
            return f'container "{container}" in pod "{name}" is waiting to start: ContainerCreating'
        return LogPlace(path, worker, run)


def _run_of(pod: Pod, worker: PodWorker | None, container: str) -> int:
    if worker is not None and container in worker.records:
        return worker.records[container].restarts
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    return next((status.restart_count for status in statuses if status.name == container), 0)


def _exists(path: Path) -> bool:
    return path.exists()


def _uids(old: Pod | None, new: Pod | None) -> list[str]:
    return [pod.metadata.uid for pod in (old, new) if pod is not None]
