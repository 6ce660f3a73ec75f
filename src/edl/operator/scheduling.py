"""The scheduling loop: every few seconds, or soon after something relevant changed, plan for the whole cluster.

The plan is made by `edl.scheduler` in a thread of its own, from what the caches hold, and becomes grants; the jobs'
own looks carry them out. What was granted and is not in the caches yet counts as done, so that nothing is given twice.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from edl.api import timestamp
from edl.api.core import Node, Pod
from edl.api.problem import errors
from edl.api.roles import Installation
from edl.jobs.children import LABEL_UID
from edl.jobs.grant import Grant
from edl.jobs.phase import FINAL
from edl.operator.book import Entry, JobBook
from edl.operator.caches import Caches
from edl.operator.grants import Grants, spread
from edl.operator.kinds import JobKey
from edl.operator.plans import PlanBook
from edl.operator.resources import RawJob
from edl.operator.waiting import waited
from edl.scheduler.memory import Memory
from edl.scheduler.objects import Invalid, Objects
from edl.scheduler.plan import Decision, Plan, plan
from edl.scheduler.settings import Settings
from edl.scheduler.snapshot import SnapshotBuilder
from edl.scheduler.where import planned_node

log = logging.getLogger(__name__)

INTERVAL = 5.0
DEBOUNCE = 0.08
AFTER = 0.01  # a timer may be early by a little, and a window that has not ended would cost an interval
REST = 15.0  # after a cycle the loop rests this many times as long as it took
Requeue = Callable[[JobKey, int], None]
"""Asks for a look at a job; the lower number goes first."""

SHRINKING, GROWING, TOLD = 0, 1, 2


class Cycle(msgspec.Struct, frozen=True):
    """What one cycle came to, for metrics and the log."""

    plan: Plan
    seconds: float
    changed: tuple[Decision, ...]
    waited: tuple[float, ...] = ()
    """Of those that this cycle admitted: how many seconds they had waited."""


class SchedulingLoop:
    """`planned(cycle)` is told of every cycle."""

    def __init__(
        self,
        caches: Caches,
        book: JobBook,
        grants: Grants,
        requeue: Requeue,
        *,
        settings: Settings | None = None,
        installation: Installation | None = None,
        clock: Callable[[], float] = time.time,
        interval: float = INTERVAL,
        debounce: float = DEBOUNCE,
        planned: Callable[[Cycle], None] = lambda cycle: None,
    ) -> None:
        self._caches, self._book, self._grants, self._requeue = caches, book, grants, requeue
        self._plans = PlanBook(caches.plans)
        self._settings = settings or Settings()
        self._clock, self._interval, self._debounce, self._planned = clock, interval, debounce, planned
        self._builder = SnapshotBuilder(installation=installation)
        self._memory = Memory()
        self._stirred = asyncio.Event()
        self._took = 0.0
        self._wake: float | None = None
        self._overlaid: dict[str, tuple[Any, Grant, Any]] = {}

    def stir(self, _: object = None) -> None:
        """Something changed that a plan may depend on."""
        self._stirred.set()

    async def run(self) -> None:
        """For ever; ends only by cancellation. A cycle that fails is logged, and the next one is made all the same."""
        handlers = [
            (informer, informer.add_handler("scheduling", keys, self.stir)) for informer, keys in self._sources()
        ]
        try:
            while True:
                try:
                    await self.cycle()
                except Exception:
                    log.exception("a scheduling cycle failed; sizes stay as they are until the next one")
                await self._wait()
        finally:
            for informer, handler in handlers:
                informer.remove_handler(handler)

    def _sources(self) -> Sequence[tuple[Any, Any]]:
        caches = self._caches
        return [
            *((informer, _job_matters) for informer in caches.jobs.values()),
            (caches.plans, _job_matters),
            (caches.pods, pod_matters),
            (caches.nodes, _node_matters),
            *((informer, _changed) for informer in caches.bounds),
        ]

    async def _wait(self) -> None:
        """Until something changes, the first freezing window ends, or the interval is over."""
        window = self._interval if self._wake is None else self._wake - self._clock() + AFTER
        try:
            async with asyncio.timeout(min(self._interval, max(0.0, window))):
                await self._stirred.wait()
        except TimeoutError:
            return
        # What comes in a burst is one reason to plan, and planning should not be most of what we do.
        await asyncio.sleep(min(max(self._debounce, REST * self._took), self._interval))

    async def cycle(self) -> Cycle:
        self._stirred.clear()
        started = self._clock()
        entries = list(self._book.entries())
        objects = self._objects(entries)
        made = await asyncio.to_thread(self._plan, objects, started)
        self._memory, self._wake = made.memory, made.wake
        by_uid = {entry.uid: entry for entry in entries}
        changed = self._apply(made, by_uid)
        admitted = (by_uid[one.uid] for one in changed if one.target and not _target(by_uid[one.uid]))
        waits = tuple(waited(entry, started) for entry in admitted)
        self._took = self._clock() - started
        cycle = Cycle(made, self._took, changed, waits)
        _log_cycle(cycle)
        self._planned(cycle)
        return cycle

    def _plan(self, objects: Objects, now: float) -> Plan:
        return plan(self._builder.build(objects), self._memory, now=now, settings=self._settings)

    def _objects(self, entries: Sequence[Entry]) -> Objects:
        caches = self._caches
        jobs = [self._with_grant(entry) for entry in entries if entry.job is not None]
        self._overlaid = {uid: known for uid, known in self._overlaid.items() if self._grants.get(uid) is not None}
        return Objects(
            nodes=tuple(caches.nodes.all()),
            pods=tuple(caches.pods.all()),
            jobs=tuple(jobs),
            resources=self._plans.all(),
            invalid=tuple(_invalid(entry) for entry in entries if entry.job is None),
            children=(*caches.batch_jobs.all(), *caches.replica_sets.all(), *caches.stateful_sets.all()),
            quotas=tuple(caches.quotas.all()),
            limit_ranges=tuple(caches.limit_ranges.all()),
            priority_classes=tuple(caches.priority_classes.all()),
            namespaces=tuple(caches.namespaces.all()),
        )

    def _with_grant(self, entry: Entry) -> Any:
        """The job as it will be once what was granted to it is written."""
        job, uid, kind = entry.job, entry.uid, entry.kind
        grant, scale = self._grants.get(uid), kind.scale_of(job.status)
        target = scale.target if scale is not None else None
        if grant is None or grant.target == target or job.status.finished or not kind.granted(job.status, grant):
            return job
        known = self._overlaid.get(uid)
        if known is None or known[0] is not job or known[1] is not grant:
            same = grant.target == (target or 0)
            when = (scale.last_scale_time if scale is not None else None) if same else timestamp.text(self._clock())
            status = kind.with_target(job.status, grant.target, when)
            known = self._overlaid[uid] = job, grant, replace(job, status=status)
        return known[2]

    def _apply(self, made: Plan, entries: dict[str, Entry]) -> tuple[Decision, ...]:
        """Grants first, looks after: those that shrink make room for those that grow."""
        changed: list[Decision] = []
        for decision in made.jobs:
            entry = entries.get(decision.uid)
            if entry is None or entry.job is None or entry.job.status.finished:
                continue
            known = self._grants.get(decision.uid)
            grant = _as_first_told(grant_of(decision), known, entry)
            if not self._grants.put(decision.uid, grant):
                continue
            before = known.target if known is not None else _target(entry)
            if before != grant.target:
                changed.append(decision)
            self._requeue(entry.key, _urgency(before, grant.target))
        self._grants.keep(entries)
        return tuple(changed)


def grant_of(decision: Decision) -> Grant:
    """Of placements and leavers those of roles whose pods we make ourselves are used; others have controllers."""
    return Grant(
        target=decision.target,
        code=str(decision.code),
        words=decision.reason,
        nodes={role: spread(nodes) for role, nodes in decision.placements.items()},
        leavers=decision.leavers,
        roles=decision.roles,
    )


def _as_first_told(grant: Grant, known: Grant | None, entry: Entry) -> Grant:
    """A grant that its job has not written down yet keeps its reason: later plans know only that it was granted."""
    if known is None or known.target != grant.target or _target(entry) == grant.target:
        return grant
    return replace(grant, code=known.code, words=known.words)


def _urgency(before: int | None, after: int) -> int:
    if before is None or before == after:
        return TOLD
    return SHRINKING if after < before else GROWING


def _target(entry: Entry) -> int | None:
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


def _log_cycle(cycle: Cycle) -> None:
    if not cycle.changed:
        log.debug("cycle: %d jobs, no change, %.1f ms", len(cycle.plan.jobs), cycle.seconds * 1000)
        return
    moves = "; ".join(
        f"{one.namespace}/{one.name} {one.current} -> {one.target} ({one.reason})" for one in cycle.changed
    )
    log.info("cycle: %d jobs, %.1f ms: %s", len(cycle.plan.jobs), cycle.seconds * 1000, moves)


# What a plan depends on. Each answers with something if the change matters.


def _changed(old: object, new: object) -> tuple[int, ...]:
    return (1,)


def _job_matters(old: RawJob | None, new: RawJob | None) -> tuple[int, ...]:
    """What we write into status ourselves is no news to us, but that a job has ended is."""
    if old is None or new is None:
        return (1,)
    before, after = old.metadata, new.metadata
    same = (before.uid, before.generation, before.annotations) == (after.uid, after.generation, after.annotations)
    going = before.deletion_timestamp != after.deletion_timestamp
    return (1,) if not same or going or _finished(old) != _finished(new) else ()


def _finished(job: RawJob) -> bool:
    """Kinds spell their phases with capitals or without."""
    return isinstance(job.status, Mapping) and str(job.status.get("phase")).lower() in FINAL


def pod_matters(old: Pod | None, new: Pod | None) -> tuple[int, ...]:
    """That a plan is followed is no news to it: a pod that it wanted is there, and then on a node.

    On another than it chose, if the cluster's scheduler has its own mind: it looks at a part of a large cluster only,
    so that half of two hundred nodes are not asked. The room is taken all the same; the next regular plan sees where.
    """
    if new is None:
        return (1,)
    if old is None:
        return () if _planned(new) and not new.spec.node_name else (1,)
    return (1,) if _weight(old) != _weight(new) else ()


def _planned(pod: Pod) -> str:
    """The node that the plan chose for a pod of ours."""
    return planned_node(pod.spec) if LABEL_UID in pod.metadata.labels else ""


def _weight(pod: Pod) -> tuple[object, ...]:
    scheduled = pod.status.condition("PodScheduled")
    return (
        _planned(pod) or pod.spec.node_name,
        pod.finished,
        pod.status.nominated_node_name,
        pod.metadata.deletion_timestamp,
        scheduled.reason if scheduled is not None else "",
        pod.spec.scheduling_gates,
        [container.resources for container in pod.spec.containers],
    )


def _node_matters(old: Node | None, new: Node | None) -> tuple[int, ...]:
    if old is None or new is None:
        return (1,)
    return (1,) if _state(old) != _state(new) else ()


def _state(node: Node) -> tuple[object, ...]:
    """Heartbeats change times and nothing else."""
    return node.spec, node.status.allocatable, node.metadata.labels, node.ready
