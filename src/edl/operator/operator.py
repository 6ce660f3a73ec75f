"""Assembles the operator: caches, controllers, the scheduling loop, accounting, endpoints. Decides nothing about jobs.

Only the leader plans, reconciles jobs and answers pods; a standby has warm caches and listens.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace
from prometheus_client import CollectorRegistry, generate_latest

from edl.api.labels import CONTROLLER
from edl.jobs.core.kind import Companion, JobKind
from edl.jobs.core.pods.environment import ServiceAccess
from edl.jobs.core.pods.pod_builder import PodSettings
from edl.jobs.registry import JOB_KINDS
from edl.kube.controllers.controller import Controller, Source
from edl.kube.controllers.lease import Fence, Lease
from edl.kube.controllers.manager import Manager
from edl.kube.controllers.recorder import EventRecorder, Reference
from edl.kube.rest.client import Client
from edl.kube.rest.rate_limiter import RateLimiter
from edl.operator.accounting.accounting import Accounting, reconcile_then_observe
from edl.operator.accounting.cluster_ledger import KeptInConfigMap
from edl.operator.accounting.history_posts import post_to
from edl.operator.credentials.identity import Identity
from edl.operator.endpoints import Endpoints, in_background
from edl.operator.job_service_host import JobServiceHost
from edl.operator.metrics.health import HealthCollector
from edl.operator.metrics.jobs import AccountCollector, ChangeMetrics, CycleMetrics, JobCollector, SpinMetrics
from edl.operator.metrics.requests import MeteredTransport
from edl.operator.progress_writes import ProgressWrites
from edl.operator.reconcile.caches import Caches, batching_delay, job_keys, job_keys_of_pod
from edl.operator.reconcile.companion_cache import jobs_named
from edl.operator.reconcile.companion_reconciler import CompanionReconciler
from edl.operator.reconcile.grants import Grants
from edl.operator.reconcile.job_cache import Entry, JobCache
from edl.operator.reconcile.job_key import JobKey
from edl.operator.reconcile.reconciler import NoService, Reconciler
from edl.operator.scheduling_loop import CycleResult, SchedulingLoop
from edl.operator.settings import LEASE, OperatorSettings
from edl.operator.throughput.keeping import Keeper
from edl.protocol.progress import Progress
from edl.scheduler.snapshot.models import Measured

QPS, BURST = 400.0, 800
DRAIN = 1.0
"""Seconds for the reconciles in hand at a stop. Nothing new is begun meanwhile, so the next leader should lead soon; it
makes those again that were cancelled."""
EVENTS_AT_ONCE = 50  # of one job; creating a job may take half of them
EVENTS_QPS, EVENTS_BURST, EVENTS_PENDING = 10.0, 100, 5000
"""Limits for Events of all jobs. People read them and can wait: when hundreds of jobs start, their pods come first."""


UNHURRIED = 9
"""Priority of reconciles that only write numbers: after everything else that waits."""


class Operator:
    """`client` reads and holds the lease; every write for jobs passes a fence that checks the lease first."""

    def __init__(
        self,
        transport: MeteredTransport,
        client: Client,
        settings: OperatorSettings,
        identity: Identity | None,
        *,
        on_leading: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        who = settings.identity
        self.settings = settings
        self.caches = Caches(client, settings.namespaces)
        self.jobs = JobCache(self.caches.jobs)
        self.grants = Grants()
        self._on_leading, self._clock, self._client = on_leading, clock, client
        self._serving = asyncio.Event()
        self._lease = Lease(client, name=LEASE, namespace=settings.namespace, identity=who, duration=settings.lease)
        self._writer = Client(Fence(transport, self._lease.check), rate_limiter=RateLimiter(qps=QPS, burst=BURST))
        self._recorder = self._event_recorder(transport)
        self._registry = CollectorRegistry()
        self._registry.register(transport)
        self._registry.register(JobCollector(self.jobs, clock, self._report))
        self._cycles = CycleMetrics(self._registry)
        self._spins = SpinMetrics(self._registry)
        self._changes = ChangeMetrics(self._registry)
        self.endpoints = self._endpoints(identity) if identity is not None else None
        self.service = self.endpoints.service if self.endpoints is not None else None
        self._keeper: Keeper | None = None
        if self.service is not None:
            self._keeper = Keeper(self.service, self._that_have_run, clock=clock)
        self._registry.register(HealthCollector(leads=self._leads, served=self._is_served, identity=self._identity))
        self.accounting = self._accounting()
        self._registry.register(AccountCollector(self.accounting))

    def _event_recorder(self, transport: MeteredTransport) -> EventRecorder:
        """With a limit of its own: events must not keep the operator from its work."""
        return EventRecorder(
            Client(transport, rate_limiter=RateLimiter(qps=EVENTS_QPS, burst=EVENTS_BURST)),
            controller=CONTROLLER,
            instance=self.settings.identity,
            pending=EVENTS_PENDING,
            burst=EVENTS_AT_ONCE,
            heard=self._heard,
        )

    def _endpoints(self, identity: Identity) -> Endpoints:
        return Endpoints(
            self._client,
            self._writer,
            self.caches,
            self.jobs,
            self.settings,
            identity,
            read_metrics=lambda: generate_latest(self._registry),
            clock=self._clock,
        )

    def _accounting(self) -> Accounting:
        """Accounts are kept where there is a job service to keep them, and told to a Brain where there is one."""
        settings, service = self.settings, self.service
        brain = self.endpoints.brain if self.endpoints is not None else None
        return Accounting(
            self.caches,
            self.jobs,
            reported=service.progress_of if service is not None else lambda key: None,
            keeper=service,
            cluster_keeper=KeptInConfigMap(self._writer, settings.namespace) if service is not None else None,
            post=post_to(brain, self._clock) if brain is not None else None,
            installation=settings.pods.installation,
            clock=self._clock,
        )

    def _heard(self, regarding: Reference, kind: str, reason: str, note: str) -> None:
        self.accounting.event(regarding, kind, reason, note)

    def _leads(self) -> bool:
        return self._lease.held

    def _is_served(self) -> bool:
        return self.service is not None and self.service.published

    def _identity(self) -> Identity | None:
        return self.endpoints.rotation.identity if self.endpoints is not None else None

    def _report(self, key: JobKey) -> tuple[Progress, float] | None:
        return self.service.report_of(key) if self.service is not None else None

    def _measured(self, entry: Entry) -> Measured | None:
        return self._keeper.measured(entry.key, entry.uid) if self._keeper is not None else None

    def _that_have_run(self) -> Iterator[tuple[JobKey, str]]:
        """Jobs that may have measured something, and may do so again."""
        for entry in self.jobs.entries():
            scale = entry.kind.scale_of(entry.status)
            has_run = scale is not None and (scale.target or scale.current or scale.pod_seconds)
            if has_run and entry.job is not None and not entry.status.finished:
                yield entry.key, entry.uid

    async def run(self, stop: asyncio.Event) -> None:
        manager: Manager | None = None

        def end() -> None:
            if manager is not None:
                manager.stop()

        async with contextlib.AsyncExitStack() as stack:
            if self.endpoints is not None:
                await stack.enter_async_context(self.endpoints.listening(end))
            manager = self._manager()
            await stack.enter_async_context(in_background(_stop_when(stop, manager)))
            await manager.run()

    def _manager(self) -> Manager:
        controllers = {kind.crd_name: self._controller(kind) for kind in JOB_KINDS}
        companions = [self._companion_controller(kind, kind.companion) for kind in JOB_KINDS if kind.companion]

        def requeue(key: JobKey, urgency: int) -> None:
            controllers[key.kind].queue.add((key.namespace, key.name), priority=urgency)

        scheduling = SchedulingLoop(
            self.caches,
            self.jobs,
            self.grants,
            requeue,
            settings=self.settings.scheduler,
            installation=self.settings.pods.installation,
            clock=self._clock,
            interval=self.settings.interval,
            debounce=self.settings.debounce,
            planned=self._planned,
            failed=self._cycles.failed,
            measured=self._measured,
        )
        leading = [scheduling.run, self._lead, self._account]
        if self._keeper is not None:
            self._keeper.news = scheduling.learnt
            leading.append(self._keeper.run)
        if self.service is not None:
            leading.append(self._progress_writes(self.service, requeue).run)
        return Manager(
            informers=self.caches.all,
            controllers=[*controllers.values(), *companions],
            lease=self._lease,
            recorder=self._recorder,
            leading=leading,
            address=self.settings.probes,
            registry=self._registry,
            metrics=self.settings.metrics is None or self.endpoints is None,
            drain=DRAIN,
        )

    def _progress_writes(self, service: JobServiceHost, requeue: Callable[[JobKey, int], None]) -> ProgressWrites:
        return ProgressWrites(
            lambda: self.accounting.reports(service.take_reported()),
            lambda key: requeue(key, UNHURRIED),
            urgent=lambda: [*service.take_hopeless(), *service.take_state_waits(), *self._changed(service)],
            clock=self._clock,
        )

    def _changed(self, service: JobServiceHost) -> list[JobKey]:
        """Jobs whose workers are others than before."""
        taken = service.take_changes()
        self._changes.made(taken.values())
        return list(taken)

    def _planned(self, cycle: CycleResult) -> None:
        self._cycles.planned(cycle)
        self.accounting.planned(cycle.plan.cluster)
        if self.endpoints is not None and self.endpoints.trainer_requests is not None:
            self.endpoints.trainer_requests.planned(cycle.plan.cluster.capacity)

    def _controller(self, kind: JobKind) -> Controller:
        """One per kind, so that a name stands for one job in each queue."""
        children = job_keys(kind.crd_name)
        sources: list[Source[Any]] = [
            Source(self.caches.jobs[kind.crd_name]),
            Source(self.caches.pods, job_keys_of_pod(kind.crd_name), batching_delay),
            *(Source(informer, children) for informer in self.caches.children),
        ]
        if kind.companion is not None:
            companions = self.caches.companions[kind.companion.kind.crd_name]
            sources.append(Source(companions, jobs_named(kind.companion)))
        reconcile = reconcile_then_observe(self._reconciler(kind), kind.crd_name, self.accounting.observed)
        return Controller(kind.crd_name, sources, reconcile, workers=self.settings.workers)

    def _companion_controller(self, kind: JobKind, companion: Companion) -> Controller:
        reconciler = CompanionReconciler(kind, companion, self._writer, self.caches, self.jobs, clock=self._clock)
        sources: list[Source[Any]] = [
            Source(self.caches.companions[companion.kind.crd_name]),
            Source(self.caches.jobs[kind.crd_name], reconciler.named_by),
        ]
        return Controller(companion.kind.plural, sources, reconciler, workers=1)

    def _reconciler(self, kind: JobKind) -> Reconciler:
        return Reconciler(
            kind,
            self._writer,
            self.caches,
            self.jobs,
            self.grants,
            self._recorder,
            settings=self._pod_settings(),
            service=self.service or NoService(),
            settle=self.settings.settle,
            stalled_after=self.settings.stalled_after,
            clock=self._clock,
            on_spin=self._spins.held,
        )

    def _pod_settings(self) -> PodSettings:
        url = self.service.url if self.service is not None else ""
        return replace(self.settings.pods, access=ServiceAccess(url)) if url else self.settings.pods

    async def _account(self) -> None:
        """Accounts are read and kept by way of the job service, which must lead first."""
        await self._serving.wait()
        await self.accounting.run()

    async def _lead(self) -> None:
        async with self.endpoints.leading() if self.endpoints is not None else contextlib.nullcontext():
            self._serving.set()
            self._on_leading()
            await asyncio.Event().wait()


async def _stop_when(stop: asyncio.Event, manager: Manager) -> None:
    await stop.wait()
    manager.stop()
