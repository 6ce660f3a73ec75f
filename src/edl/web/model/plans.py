"""The next plan of the scheduler, on the cluster as the caches have it: a dry run by the very function that decides.

It knows nothing of what the operator remembers between its cycles (who waits since when, sizes that users asked for),
so a plan may differ from the operator's for a moment. Planning runs in a thread.
"""

import asyncio
from collections.abc import Mapping
from itertools import islice

from edl.api.schema.problem import errors
from edl.jobs.registry import BY_API_VERSION, COMPANION_KINDS
from edl.operator.reconcile.companion_cache import CompanionCache
from edl.operator.reconcile.job_cache import JobCache
from edl.scheduler.memory import Memory
from edl.scheduler.placement.resources import CPU, GPU_NAMES, MEMORY
from edl.scheduler.plan import Decision, Plan, plan
from edl.scheduler.policies.registry import POLICIES
from edl.scheduler.reasons.codes import Code
from edl.scheduler.settings import Settings
from edl.scheduler.simulation.forecast import timeline
from edl.scheduler.simulation.forward import Future
from edl.scheduler.snapshot.builder import build_snapshot
from edl.scheduler.snapshot.objects import Invalid, Objects
from edl.scheduler.snapshot.types import Snapshot
from edl.web.model.rows import job_key
from edl.web.model.state import ClusterState
from edl.web.types import Amounts, Coming, PlannedJob, PlanView

CHANGED = 500  # jobs that a page lists
SIMULATED = 300  # jobs of a cluster that is run forward
AHEAD, PLANS, COMING = 24 * 3600.0, 50, 40


class Planner:
    """One plan at a time, and the same one again for whoever asks before anything has changed."""

    def __init__(self, state: ClusterState, settings: Settings) -> None:
        self._state, self._settings = state, settings
        self._jobs = JobCache(state.caches.jobs)
        self._companions = [CompanionCache(kind, state.caches.companions[kind.crd_name]) for kind in COMPANION_KINDS]
        self._turn = asyncio.Lock()
        self._known: dict[str, tuple[int, PlanView]] = {}

    @property
    def policy(self) -> str:
        return self._settings.policy

    async def view(self, policy: str) -> PlanView:
        async with self._turn:
            known = self._known.get(policy)
            if known is not None and known[0] == self._state.turn:
                return known[1]
            turn, objects = self._state.turn, self._objects()
            chosen = Settings(
                policy=policy,
                max_load=self._settings.max_load,
                available=self._settings.available,
                weights=self._settings.weights,
                scale_hold=self._settings.scale_hold,
            )
            made = await asyncio.to_thread(_plan, objects, self._state.clock(), chosen)
            self._known[policy] = turn, made
            return made

    def _objects(self) -> Objects:
        caches, entries = self._state.caches, list(self._jobs.entries())
        return Objects(
            nodes=tuple(caches.nodes.all()),
            pods=tuple(caches.pods.all()),
            jobs=tuple(entry.job for entry in entries if entry.job is not None),
            resources=tuple(one for cache in self._companions for one in cache.all()),
            invalid=tuple(
                Invalid(
                    entry.raw.kind,
                    entry.raw.api_version,
                    entry.raw.metadata.namespace,
                    entry.raw.metadata.name,
                    entry.uid,
                    next((str(problem) for problem in errors(entry.problems)), "it does not validate"),
                )
                for entry in entries
                if entry.job is None
            ),
            children=(*caches.batch_jobs.all(), *caches.replica_sets.all(), *caches.stateful_sets.all()),
            quotas=tuple(caches.quotas.all()),
            limit_ranges=tuple(caches.limit_ranges.all()),
            priority_classes=tuple(caches.priority_classes.all()),
            namespaces=tuple(caches.namespaces.all()),
            complete=True,
        )


def _plan(objects: Objects, now: float, settings: Settings) -> PlanView:
    taken = build_snapshot(objects)
    made = plan(taken, now=now, settings=settings)
    return plan_view(made, list(objects.problems), _coming(taken, now, settings))


def _coming(taken: Snapshot, now: float, settings: Settings) -> list[Coming]:
    """The cluster run forward on virtual time, as `edl simulate` does; for clusters where that takes a moment."""
    if len(taken.jobs) > SIMULATED:
        return []
    happenings = islice(Future(taken, Memory(), now=now, settings=settings).run(now + AHEAD, PLANS), COMING)
    told = timeline(list(happenings), {facts.key: facts for facts in taken.jobs}, now)
    return [Coming(wait=wait, job=job, what=what) for wait, job, what in told]


def plan_view(made: Plan, problems: list[str], coming: list[Coming]) -> PlanView:
    """Those that would change, then those that would wait; who takes no part any more is left out."""
    there = [one for one in made.jobs if one.code is not Code.FINISHED]
    changed = [one for one in there if one.target != one.current or not one.target]
    shown = sorted(changed, key=lambda one: (one.target == one.current, one.namespace, one.name))[:CHANGED]
    use = made.cluster
    return PlanView(
        policy=made.policy,
        policies=list(POLICIES),
        jobs=[_planned(one) for one in shown],
        unchanged=len(there) - len(shown),
        capacity=_three(use.capacity),
        used_before=_three(use.used_before),
        used_after=_three(use.used_after),
        problems=problems,
        coming=coming,
    )


def _planned(one: Decision) -> PlannedJob:
    kind = BY_API_VERSION.get((one.api_version, one.kind))
    return PlannedJob(
        key=job_key(kind.crd_name if kind is not None else "", one.namespace, one.name),
        namespace=one.namespace,
        name=one.name,
        current=one.current,
        target=one.target,
        min=one.min,
        max=one.max,
        code=str(one.code),
        reason=one.reason,
        nodes=dict(one.placements.get(one.lead, {})),
    )


def _three(amounts: Mapping[str, int]) -> Amounts:
    gpus = sum(amounts.get(name, 0) for name in GPU_NAMES)
    return amounts.get(CPU, 0) / 1000, float(amounts.get(MEMORY, 0)), float(gpus)
