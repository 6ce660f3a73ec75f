"""The operator as a whole: everything made, tied together and run, in a process of its own or inside another's.

Start: the server's version, our kinds, the installation's identity, the job service's port; then the manager takes over
(caches, lease, work). Only the leader plans, looks at jobs and answers pods; a standby has warm caches and listens.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from edl.jobs.environment import ServiceAccess
from edl.jobs.pods import PodSettings
from edl.kube.budget import Budget
from edl.kube.client import Client
from edl.kube.controller import Controller, Source
from edl.kube.errors import ApiError
from edl.kube.lease import Fence, Lease
from edl.kube.manager import Manager
from edl.kube.recorder import EventRecorder
from edl.kube.transport import Transport
from edl.operator.abilities import can_resize
from edl.operator.book import JobBook
from edl.operator.brain import keep_brain, own_brain
from edl.operator.caches import Caches, job_of, job_of_pod, patience
from edl.operator.crds import check_version, register_crds
from edl.operator.desk import OperatorDesk
from edl.operator.grants import Grants
from edl.operator.identity import Identity, load_identity
from edl.operator.job_service import Progress
from edl.operator.kinds import EASYDL, KINDS, JobKey, JobKind
from edl.operator.metered import Metered
from edl.operator.metrics import CycleMetrics, JobCollector
from edl.operator.plan_status import PlanReconciler
from edl.operator.plans import job_key
from edl.operator.reconcile import NoService, Reconciler
from edl.operator.resources import JOB_RESOURCES, NAMESPACES
from edl.operator.rotation import Rotation
from edl.operator.scheduling import Cycle, SchedulingLoop
from edl.operator.service import Records, ServicePart, service_names
from edl.operator.settings import LEASE, SECRET, WEBHOOK, OperatorSettings
from edl.operator.webhook import Webhook

log = logging.getLogger(__name__)

QPS, BURST = 400.0, 800
EVENTS_AT_ONCE = 50  # of one job; the birth of a job alone may take half of them
EVENTS_QPS, EVENTS_BURST, EVENTS_PENDING = 10.0, 100, 5000
"""Of all jobs. People read Events, and can wait; where hundreds of jobs start at once their pods come first."""


async def run_operator(
    transport: Transport,
    settings: OperatorSettings,
    *,
    stop: asyncio.Event,
    leads: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.time,
) -> None:
    """Until `stop` is set, then ends in good order. `leads` is called when this operator has become the leader.

    Raises when the lease is lost or the server cannot be worked with: the process should end, or start anew.
    """
    transport = Metered(transport)
    client = Client(transport, budget=Budget(qps=QPS, burst=BURST))
    version = await check_version(client)
    settings = replace(settings, identity=settings.who())
    log.info("operator %s against Kubernetes %s", settings.identity, version)
    if settings.register_crds:
        await register_crds(client)
    await _ensure_namespace(client, settings.namespace)
    settings = replace(settings, pods=replace(settings.pods, resizes=await can_resize(client)))
    identity = None
    if settings.service is not None or settings.webhook is not None:
        identity = await load_identity(client, settings.namespace, SECRET, service_names(settings))
    await Operator(transport, client, settings, identity, leads=leads, clock=clock).run(stop)


async def _ensure_namespace(client: Client, name: str) -> None:
    try:
        await client.get(NAMESPACES, name)
    except ApiError as error:
        if not error.is_not_found:
            raise
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        with contextlib.suppress(ApiError):  # another operator was faster
            await client.create(NAMESPACES, body)


class Operator:
    """`client` reads and holds the lease; everything that is done for jobs goes through a fence of that lease."""

    def __init__(
        self,
        transport: Metered,
        client: Client,
        settings: OperatorSettings,
        identity: Identity | None,
        *,
        leads: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        who = settings.identity
        self.settings = settings
        self.caches = Caches(client)
        self.book = JobBook(self.caches.jobs)
        self.grants = Grants()
        self._leads, self._clock, self._client = leads, clock, client
        self._lease = Lease(client, name=LEASE, namespace=settings.namespace, identity=who, duration=settings.lease)
        self._writer = Client(Fence(transport, self._lease.check), budget=Budget(qps=QPS, burst=BURST))
        self._recorder = EventRecorder(
            Client(transport, budget=Budget(qps=EVENTS_QPS, burst=EVENTS_BURST)),
            controller="edl.dev/operator",
            instance=who,
            pending=EVENTS_PENDING,
            burst=EVENTS_AT_ONCE,
        )
        self._registry = CollectorRegistry()
        self._registry.register(transport)
        self._registry.register(JobCollector(self.book, clock, self._report))
        self._cycles = CycleMetrics(self._registry)
        self.service: ServicePart | None = None
        self._desk: OperatorDesk | None = None
        self.webhook: Webhook | None = None
        self._rotation: Rotation | None = None
        if identity is not None:
            self._serve_as(client, identity)

    def _serve_as(self, client: Client, identity: Identity) -> None:
        """What needs a certificate: the job service and the webhook present the same one."""
        settings = self.settings
        rotation = self._rotation = Rotation(
            client, identity, namespace=settings.namespace, secret=SECRET, names=service_names(settings)
        )
        if settings.service is not None:
            records = Records(self.caches, self.book, identity)
            gpu = settings.pods.installation.gpu
            brain = own_brain(identity, settings.namespace) if settings.own_brain else settings.brain
            desk = self._desk = OperatorDesk(
                self._writer, self.caches, self.book, gpu=gpu, brain=brain, clock=self._clock
            )
            self.service = ServicePart(self._writer, records, identity, settings.service, tls=rotation.tls, desk=desk)
        if settings.webhook is not None:
            self.webhook = Webhook(
                self._writer, address=settings.webhook, tls=rotation.tls, name=WEBHOOK, ca=identity.ca
            )

    def _report(self, key: JobKey) -> tuple[Progress, float] | None:
        return self.service.report_of(key) if self.service is not None else None

    async def run(self, stop: asyncio.Event) -> None:
        async with contextlib.AsyncExitStack() as stack:
            if self.service is not None:
                await stack.enter_async_context(self.service.listening(self.settings.namespace))
            if self.webhook is not None:
                await stack.enter_async_context(self.webhook.listening())
            manager = self._manager()
            await stack.enter_async_context(_beside(_stop_when(stop, manager)))
            if self._rotation is not None and self.settings.own_brain:
                kept = keep_brain(self._client, self._rotation.identity, self.settings.namespace)
                await stack.enter_async_context(_beside(kept))
            if self._rotation is not None:
                await stack.enter_async_context(_beside(_rotate(self._rotation, manager)))
            await manager.run()

    def _manager(self) -> Manager:
        controllers = {kind.name: self._controller(kind) for kind in KINDS}

        def requeue(key: JobKey, urgency: int) -> None:
            controllers[key.kind].queue.add((key.namespace, key.name), priority=urgency)

        scheduling = SchedulingLoop(
            self.caches,
            self.book,
            self.grants,
            requeue,
            settings=self.settings.scheduler,
            installation=self.settings.pods.installation,
            clock=self._clock,
            interval=self.settings.interval,
            debounce=self.settings.debounce,
            planned=self._planned,
        )
        return Manager(
            informers=self.caches.all,
            controllers=[*controllers.values(), self._plan_controller()],
            lease=self._lease,
            recorder=self._recorder,
            leading=[scheduling.run, self._lead],
            address=self.settings.probes,
            registry=self._registry,
        )

    def _planned(self, cycle: Cycle) -> None:
        self._cycles.planned(cycle)
        if self._desk is not None:
            self._desk.planned(cycle.plan.cluster.capacity)

    def _controller(self, kind: JobKind) -> Controller:
        """One per kind, so that a name stands for one job in each queue."""
        children = job_of(kind.name)
        sources: list[Source[Any]] = [
            Source(self.caches.jobs[kind.name]),
            Source(self.caches.pods, job_of_pod(kind.name), patience),
            *(Source(informer, children) for informer in self.caches.children),
            *((Source(self.caches.plans, job_key),) if kind.planned else ()),
        ]
        return Controller(kind.name, sources, self._reconciler(kind), workers=self.settings.workers)

    def _plan_controller(self) -> Controller:
        reconciler = PlanReconciler(self._writer, self.caches, self.book, clock=self._clock)
        sources: list[Source[Any]] = [
            Source(self.caches.plans),
            Source(self.caches.jobs[EASYDL.name], reconciler.named_by),
        ]
        return Controller(JOB_RESOURCES.plural, sources, reconciler, workers=1)

    def _reconciler(self, kind: JobKind) -> Reconciler:
        return Reconciler(
            kind,
            self._writer,
            self.caches,
            self.book,
            self.grants,
            self._recorder,
            settings=self._pod_settings(),
            service=self.service or NoService(),
            settle=self.settings.settle,
            clock=self._clock,
        )

    def _pod_settings(self) -> PodSettings:
        url = self.service.url if self.service is not None else ""
        return replace(self.settings.pods, access=ServiceAccess(url)) if url else self.settings.pods

    async def _lead(self) -> None:
        async with contextlib.AsyncExitStack() as stack:
            if self.service is not None:
                await stack.enter_async_context(self.service.leading(self.settings.namespace))
            if self.webhook is not None:
                await stack.enter_async_context(_beside(self.webhook.be_trusted()))
            self._leads()
            await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def _beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Runs while the block does. If it failed, that is what is raised in the end."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        (ended,) = await asyncio.gather(task, return_exceptions=True)
        if isinstance(ended, Exception):
            raise ended


async def _rotate(rotation: Rotation, manager: Manager) -> None:
    try:
        await rotation.run()
    finally:
        manager.stop()  # it ends by failing alone, and then so must we


async def _stop_when(stop: asyncio.Event, manager: Manager) -> None:
    await stop.wait()
    manager.stop()
