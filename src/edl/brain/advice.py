"""Gathers what the policy needs from the store, and stores what other jobs can learn from a decision."""

import msgspec

from edl.brain.policy.decide import Decision, decide
from edl.brain.policy.evaluation import evaluated
from edl.brain.policy.history import comparable_samples
from edl.brain.policy.measurements import throughput_points
from edl.brain.policy.past_jobs import namespace_of, summarise
from edl.brain.policy.settings import Settings
from edl.brain.policy.sharing import Demand, share_capacity
from edl.brain.policy.startup import startup_plan
from edl.brain.store import JobHistory, Store
from edl.protocol.brain import Ask, Beginning
from edl.protocol.job_facts import JobFacts, ResourcePlan
from edl.protocol.resources import WORKER
from edl.throughput.curve import fit

LATELY = 300.0  # a job that has not asked for so long does not compete for capacity


class Advisor:
    """`share_history`: jobs learn from those of every namespace and share capacity with them; else what a namespace
    reports shapes no other's plans."""

    def __init__(self, store: Store, settings: Settings, *, share_history: bool = False) -> None:
        self._store, self._settings, self._share_history = store, settings, share_history
        self._demands: dict[str, tuple[float, Demand]] = {}

    async def start(self, job: str, asked: Beginning) -> ResourcePlan:
        """`job` empty: nobody's, it only asks what one like this would get."""
        past, settings, features = await self._store.past_jobs(), self._settings.within(asked.limits), asked.features
        only = "" if self._share_history else features.namespace
        similar = past.similar(features, settings, excluding=job, namespace=only)
        return startup_plan(features, similar, asked.capacity, settings)

    async def next(self, job: str, ask: Ask, now: float) -> Decision | None:
        """None: the job is not known."""
        history = await self._store.history(job)
        if history is None:
            return None
        facts = _facts(history, ask)
        facts = msgspec.structs.replace(facts, share=self._share(job, facts, now))
        decision = decide(facts, now, self._settings.within(ask.limits))
        if decision.evaluation is not None:
            await self._store.report(job, (), (evaluated(facts.plans[-1], decision.evaluation),), now=now)
            await self._store.save_summary(summarise(job, facts, now, history.job.outcome, self._settings))
        return decision

    async def conclude(self, job: str, outcome: str, now: float) -> None:
        self._demands.pop(job, None)
        history = await self._store.history(job)
        if history is None or not history.plans:
            return
        last = history.plans[-1].plan
        facts = _facts(history, Ask(present=last.roles, slots=last.slots))
        await self._store.save_summary(summarise(job, facts, now, outcome, self._settings))

    def _share(self, job: str, facts: JobFacts, now: float) -> int | None:
        """The workers that this job may have if everybody who asked lately asks for what it is worth to them."""
        if facts.capacity is None:
            return None
        curve = fit(throughput_points(comparable_samples(facts)))
        if curve is None:
            return None
        self._demands[job] = (now, Demand(job, curve, facts.granted.get(WORKER, 0), facts.workers.resource))
        self._demands = {name: (at, demand) for name, (at, demand) in self._demands.items() if now - at < LATELY}
        others = [demand for name, (_, demand) in self._demands.items() if name != job and self._competes(name, job)]
        if not others:
            return None
        left = facts.capacity.without((demand.workers, demand.resource) for demand in others)
        return share_capacity([self._demands[job][1], *others], left, self._settings)[job]

    def _competes(self, other: str, job: str) -> bool:
        return self._share_history or namespace_of(other) == namespace_of(job)


def _facts(history: JobHistory, ask: Ask) -> JobFacts:
    return ask.facts(history.job.features, history.samples, history.plans, history.incidents)
