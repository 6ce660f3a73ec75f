"""The scheduling loop: plans for the whole cluster every few seconds, or soon after a relevant change.

`edl.scheduler` makes the plan in a thread of its own, from what the caches hold. It becomes grants, which the
reconciles of the jobs carry out. A grant that is not in the caches yet counts as carried out, so that nothing is
granted twice.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from edl.api.job_view import Installation
from edl.api.kubernetes import timestamp
from edl.api.schema.problem import errors
from edl.api.status import SizeHold
from edl.jobs.core.grant import Grant
from edl.jobs.in_force import starting_size_before
from edl.jobs.registry import COMPANION_KINDS
from edl.operator.plan_triggers import any_change, job_matters, node_matters, pod_matters
from edl.operator.queue_wait import waited
from edl.operator.reconcile.caches import Caches
from edl.operator.reconcile.companion_cache import CompanionCache
from edl.operator.reconcile.grants import Grants, spread
from edl.operator.reconcile.job_cache import Entry, JobCache
from edl.operator.reconcile.job_key import JobKey
from edl.operator.start_forecasts import StartForecasts
from edl.scheduler.memory import Memory
from edl.scheduler.plan import Decision, Plan, plan
from edl.scheduler.plan_cache import PlanCache
from edl.scheduler.policies.registry import policy_named
from edl.scheduler.settings import Settings
from edl.scheduler.snapshot.builder import SnapshotBuilder
from edl.scheduler.snapshot.models import Measured
from edl.scheduler.snapshot.objects import Invalid, Objects
from edl.scheduler.snapshot.types import Snapshot

log = logging.getLogger(__name__)

INTERVAL = 5.0
DEBOUNCE = 0.08
AFTER = 0.01  # a timer may be early by a little, and a window that has not ended would cost an interval
REST = 15.0  # after a cycle the loop rests this many times as long as it took
Requeue = Callable[[JobKey, int], None]
"""Requests a reconcile of a job; the lower number goes first."""

SHRINKING, GROWING, UNCHANGED = 0, 1, 2


class CycleResult(msgspec.Struct, frozen=True):
    """The result of one cycle, for metrics and the log."""

    plan: Plan
    seconds: float
    changed: tuple[Decision, ...]
    waited: tuple[float, ...] = ()
    """Seconds that each of the jobs admitted in this cycle had waited."""


class SchedulingLoop:
    """`planned(result)` is called after every cycle, `failed()` after one that failed."""

    def __init__(
        self,
        caches: Caches,
        jobs: JobCache,
        grants: Grants,
        requeue: Requeue,
        *,
        settings: Settings | None = None,
        installation: Installation | None = None,
        clock: Callable[[], float] = time.time,
        interval: float = INTERVAL,
        debounce: float = DEBOUNCE,
        planned: Callable[[CycleResult], None] = lambda cycle: None,
        failed: Callable[[], None] = lambda: None,
        measured: Callable[[Entry], Measured | None] = lambda entry: None,
    ) -> None:
        self._caches, self._jobs, self._grants, self._requeue = caches, jobs, grants, requeue
        self._companions = {
            kind.crd_name: CompanionCache(kind, caches.companions[kind.crd_name]) for kind in COMPANION_KINDS
        }
        self._settings = settings or Settings()
        policy = policy_named(self._settings.policy)  # an unknown one is refused at the start, not in every cycle
        self._models_decide, self._measured = policy.divides, measured
        self._clock, self._interval, self._debounce = clock, interval, debounce
        self._planned, self._failed = planned, failed
        self._builder, self._plan_cache = SnapshotBuilder(installation=installation), PlanCache()
        self._memory: Memory | None = None
        self._forecasts = StartForecasts()
        self._triggered = asyncio.Event()
        self._cycle_seconds = 0.0
        self._requeue_at: float | None = None
        self._overlaid: dict[str, tuple[Any, Grant, Any]] = {}
        self._editions: dict[str, tuple[int, ...]] = {}
        """Of the jobs of the present cycle, as its plan saw them."""

    def trigger(self, _: object = None) -> None:
        """Asks for a plan soon: something changed that it may depend on."""
        self._triggered.set()

    def learnt(self) -> None:
        """Jobs have measured something new of themselves, which matters to some policies."""
        if self._models_decide:
            self.trigger()

    async def run(self) -> None:
        """Runs until cancelled. A cycle that fails is logged, and the next one is made all the same."""
        handlers = [
            (informer, informer.add_handler("scheduling", keys, self.trigger)) for informer, keys in self._sources()
        ]
        try:
            while True:
                try:
                    await self.cycle()
                except Exception:
                    log.exception("a scheduling cycle failed; sizes stay as they are until the next one")
                    self._failed()
                await self._wait()
        finally:
            for informer, handler in handlers:
                informer.remove_handler(handler)

    def _sources(self) -> Sequence[tuple[Any, Any]]:
        caches = self._caches
        return [
            *((informer, job_matters) for informer in caches.jobs.values()),
            *((informer, job_matters) for informer in caches.companions.values()),
            (caches.pods, pod_matters),
            (caches.nodes, node_matters),
            *((informer, any_change) for informer in caches.bounds),
        ]

    async def _wait(self) -> None:
        """Until something changes, the first freezing window ends, or the interval is over."""
        window = self._interval if self._requeue_at is None else self._requeue_at - self._clock() + AFTER
        try:
            async with asyncio.timeout(min(self._interval, max(0.0, window))):
                await self._triggered.wait()
        except TimeoutError:
            return
        # A burst of changes is one reason to plan, and planning should not be most of what the operator does.
        await asyncio.sleep(min(max(self._debounce, REST * self._cycle_seconds), self._interval))

    async def cycle(self) -> CycleResult:
        self._triggered.clear()
        started = self._clock()
        entries = list(self._jobs.entries())
        objects = self._objects(entries)
        self._editions = {entry.uid: self._edition(entry) for entry in entries}
        made, taken = await asyncio.to_thread(self._plan, objects, started)
        self._memory, self._requeue_at = made.memory, made.requeue_at
        by_uid = {entry.uid: entry for entry in entries}
        waiting = [one for one in made.jobs if not one.target and _waits(one, by_uid)]
        held_back = {one.uid for one in waiting}
        changed = self._apply([one for one in made.jobs if one.uid not in held_back], by_uid)
        self._cycle_seconds = self._clock() - started
        if waiting and self._forecasts.is_due(started):
            measured = objects.measured or self._all_measured(entries)
            await asyncio.to_thread(self._forecast, taken, measured, started)
        self._forecasts.keep(held_back)
        changed += self._apply(waiting, by_uid)
        self._grants.keep(by_uid)
        admitted = (by_uid[one.uid] for one in changed if one.target and not _recorded_target(by_uid[one.uid]))
        waits = tuple(waited(entry, started) for entry in admitted)
        cycle = CycleResult(made, self._cycle_seconds, changed, waits)
        _log_cycle(cycle)
        self._planned(cycle)
        return cycle

    def _plan(self, objects: Objects, now: float) -> tuple[Plan, Snapshot]:
        memory = self._memory if self._memory is not None else memory_of_last_leader(objects.jobs)
        taken = self._builder.build(objects)
        return plan(taken, memory, now=now, settings=self._settings, cache=self._plan_cache), taken

    def _forecast(self, taken: Snapshot, measured: Mapping[str, Measured], now: float) -> None:
        self._forecasts.make(
            taken,
            measured,
            self._memory or Memory(),
            now=now,
            settings=self._settings,
            plan_seconds=self._cycle_seconds,
        )

    def _objects(self, entries: Sequence[Entry]) -> Objects:
        caches = self._caches
        jobs = [self._with_grant(entry) for entry in entries if entry.job is not None]
        self._overlaid = {uid: known for uid, known in self._overlaid.items() if self._grants.get(uid) is not None}
        return Objects(
            nodes=tuple(caches.nodes.all()),
            pods=tuple(caches.pods.all()),
            jobs=tuple(jobs),
            resources=tuple(one for cache in self._companions.values() for one in cache.all()),
            invalid=tuple(_invalid(entry) for entry in entries if entry.job is None),
            children=(*caches.batch_jobs.all(), *caches.replica_sets.all(), *caches.stateful_sets.all()),
            quotas=tuple(caches.quotas.all()),
            limit_ranges=tuple(caches.limit_ranges.all()),
            priority_classes=tuple(caches.priority_classes.all()),
            namespaces=tuple(caches.namespaces.all()),
            measured=self._all_measured(entries) if self._models_decide else {},
            complete=True,
        )

    def _all_measured(self, entries: Sequence[Entry]) -> dict[str, Measured]:
        known = ((entry.uid, self._measured(entry)) for entry in entries)
        return {uid: measured for uid, measured in known if measured is not None}

    def _with_grant(self, entry: Entry) -> Any:
        """The job as it will be once its grant is recorded in status."""
        job, uid, kind = entry.job, entry.uid, entry.kind
        grant, scale = self._grants.get(uid), kind.scale_of(job.status)
        target, roles = (scale.target, scale.roles) if scale is not None else (None, None)
        if grant is None or job.status.finished or not kind.granted(job.status, grant):
            return job
        granted = _other_roles(grant, roles)
        if grant.target == target and granted == roles:
            return job
        known = self._overlaid.get(uid)
        if known is None or known[0] is not job or known[1] is not grant:
            same = grant.target == (target or 0)
            when = (scale.last_scale_time if scale is not None else None) if same else timestamp.text(self._clock())
            status = kind.with_scale(
                job.status,
                target=grant.target,
                roles=granted,
                roles_in_force=dict(grant.in_force) or None,
                last_scale_time=when,
            )
            known = self._overlaid[uid] = job, grant, replace(job, status=status)
        return known[2]

    def _apply(self, decisions: Sequence[Decision], entries: dict[str, Entry]) -> tuple[Decision, ...]:
        """Grants first, reconciles after, those that shrink before those that grow."""
        changed: list[Decision] = []
        for decision in decisions:
            entry = entries.get(decision.uid)
            if entry is None or entry.job is None or entry.job.status.finished or self._edited_since(entry):
                continue
            known = self._grants.get(decision.uid)
            grant = self._with_forecast(_with_first_reason(self._grant_of(decision), known, entry), decision.uid)
            if not self._grants.put(decision.uid, grant):
                if grant.target == 0 and self._forecasts.should_retell(decision.uid, _shown(entry), self._clock()):
                    self._requeue(entry.key, UNCHANGED)
                continue
            before = known.target if known is not None else _recorded_target(entry)
            if before != grant.target:
                changed.append(decision)
            self._requeue(entry.key, _urgency(before, grant.target))
        return tuple(changed)

    def _grant_of(self, decision: Decision) -> Grant:
        return replace(grant_of(decision), edition=self._editions[decision.uid])

    def _edition(self, entry: Entry) -> tuple[int, ...]:
        companion, meta = entry.kind.companion, entry.raw.metadata
        if companion is None:
            return (meta.generation,)
        found = self._companions[companion.kind.crd_name].of(meta.namespace, meta.name)
        return (meta.generation, *(one.metadata.generation for one in found))

    def _edited_since(self, planned: Entry) -> bool:
        """Whether the plan is of a spec that is no longer in the cache. The edit has asked for the next plan; this one,
        made while the job was suspended, say, would take away what its resume has just created."""
        now = self._jobs.entry(planned.key)
        return now is None or now.raw.metadata.generation != planned.raw.metadata.generation

    def _with_forecast(self, grant: Grant, uid: str) -> Grant:
        words = self._forecasts.words(uid) if grant.target == 0 else ""
        return replace(grant, message=f"{grant.message}; {words}") if words else grant


def memory_of_last_leader(jobs: Iterable[Any]) -> Memory:
    """Its plans knew other sizes of these jobs than their specs name now: those were scaled while nobody led."""
    scaled = {job.metadata.uid: size for job in jobs if (size := starting_size_before(job)) is not None}
    return Memory(
        starts={uid: size.start for uid, size in scaled.items()},
        minima={uid: size.minimum for uid, size in scaled.items()},
    )


def grant_of(decision: Decision) -> Grant:
    """Placements and leavers matter for roles whose pods the operator makes; others have controllers."""
    return Grant(
        target=decision.target,
        minimum=decision.minimum,
        in_force=decision.in_force,
        code=str(decision.code),
        message=decision.reason,
        nodes={role: spread(nodes) for role, nodes in decision.placements.items()},
        leavers=decision.leavers,
        lead=decision.lead,
        roles=decision.roles,
        hold=SizeHold(size=held[0], until=timestamp.text(held[1])) if (held := decision.held) else None,
        request=decision.request,
    )


def _other_roles(grant: Grant, known: Mapping[str, int] | None) -> dict[str, int] | None:
    """As status will have them once the grant is written."""
    others = {name: pods for name, pods in grant.roles.items() if name != grant.lead} if grant.target else {}
    return others or (None if known is None or not grant.target else {})


def _with_first_reason(grant: Grant, known: Grant | None, entry: Entry) -> Grant:
    """A grant that is not in status yet keeps its reason: later plans know only that it was granted."""
    if known is None or known.target != grant.target or _recorded_target(entry) == grant.target:
        return grant
    return replace(grant, code=known.code, message=known.message)


def _urgency(before: int | None, after: int) -> int:
    if before is None or before == after:
        return UNCHANGED
    return SHRINKING if after < before else GROWING


def _waits(decision: Decision, entries: dict[str, Entry]) -> bool:
    """Of one that was granted nothing: nothing is taken away from it either."""
    entry = entries.get(decision.uid)
    return entry is None or not _recorded_target(entry)


def _shown(entry: Entry) -> str:
    """The reason that its status gives."""
    scale = entry.kind.scale_of(entry.status)
    return scale.reason if scale is not None else ""


def _recorded_target(entry: Entry) -> int | None:
    scale = entry.kind.scale_of(entry.status)
    return scale.target if scale is not None else None


def _invalid(entry: Entry) -> Invalid:
    raw = entry.raw
    problem = next((str(problem) for problem in errors(entry.problems)), "it does not validate")
    return Invalid(
        kind=raw.kind,
        api_version=raw.api_version,
        namespace=raw.metadata.namespace,
        name=raw.metadata.name,
        uid=raw.metadata.uid,
        problem=problem,
    )


def _log_cycle(cycle: CycleResult) -> None:
    if not cycle.changed:
        log.debug("cycle: %d jobs, no change, %.1f ms", len(cycle.plan.jobs), cycle.seconds * 1000)
        return
    moves = "; ".join(
        f"{one.namespace}/{one.name} {one.current} -> {one.target} ({one.reason})" for one in cycle.changed
    )
    log.info("cycle: %d jobs, %.1f ms: %s", len(cycle.plan.jobs), cycle.seconds * 1000, moves)
