"""Between store and policy: gathers what a decision needs, and remembers what others can learn from it."""

from collections.abc import Sequence

import msgspec

from .messages import Ask
from .policy.curve import fit
from .policy.decide import Verdict, decide
from .policy.evidence import points
from .policy.facts import Capacity, Features, JobFacts, Plan
from .policy.history import comparable
from .policy.lessons import learn
from .policy.settings import Settings
from .policy.sharing import Want, share
from .policy.startup import start
from .policy.units import WORKER
from .store import JobStory, Store

LATELY = 300.0  # a job that has not asked for so long does not compete for room


class Advisor:
    def __init__(self, store: Store, settings: Settings) -> None:
        self._store, self._settings = store, settings
        self._wants: dict[str, tuple[float, Want]] = {}

    async def start(self, job: str, features: Features, capacity: Capacity | None) -> Plan:
        library = await self._store.learn()
        return start(features, library.similar(features, self._settings, besides=job), capacity, self._settings)

    async def next(self, job: str, ask: Ask, now: float) -> Verdict | None:
        """None: the job is not known."""
        story = await self._store.story(job)
        if story is None:
            return None
        facts = _facts(story, ask)
        facts = msgspec.structs.replace(facts, share=self._share(job, facts, now))
        verdict = decide(facts, now, self._settings)
        if verdict.judgement is not None:
            record = facts.plans[-1]
            judged = msgspec.structs.replace(
                record, obtained=verdict.judgement.obtained, verdict=verdict.judgement.verdict
            )
            await self._store.report(job, (), (judged,))
            await self._store.teach(learn(job, facts, now, story.job.outcome, self._settings))
        return verdict

    async def conclude(self, job: str, outcome: str, now: float) -> None:
        self._wants.pop(job, None)
        story = await self._store.story(job)
        if story is None or not story.plans:
            return
        last = story.plans[-1].plan
        facts = _facts(story, Ask(present=last.roles, slots=last.slots))
        await self._store.teach(learn(job, facts, now, outcome, self._settings))

    def _share(self, job: str, facts: JobFacts, now: float) -> int | None:
        """The workers that this job may have if everybody who asked lately asks for what it is worth to them."""
        if facts.capacity is None:
            return None
        curve = fit(points(comparable(facts)))
        if curve is None:
            return None
        self._wants[job] = (now, Want(job, curve, facts.granted.get(WORKER, 0), facts.workers.resource))
        self._wants = {name: (at, want) for name, (at, want) in self._wants.items() if now - at < LATELY}
        if len(self._wants) == 1:
            return None
        others = [want for name, (_, want) in self._wants.items() if name != job]
        left = _without(facts.capacity, others)
        return share([self._wants[job][1], *others], left, self._settings)[job]


def _without(capacity: Capacity, others: Sequence[Want]) -> Capacity:
    """What is left of it when others keep what they have."""
    held = [(want.workers, want.resource) for want in others]
    return Capacity(
        max(0.0, capacity.cpu - sum(count * (each.cpu or 0.0) for count, each in held)),
        max(0, capacity.memory - sum(count * (each.memory or 0) for count, each in held)),
        max(0, capacity.gpu - sum(count * (each.gpu or 0) for count, each in held)),
    )


def _facts(story: JobStory, ask: Ask) -> JobFacts:
    return JobFacts(
        features=story.job.features,
        present=ask.present,
        slots=ask.slots,
        granted=ask.granted,
        samples=story.samples,
        plans=story.plans,
        incidents=story.incidents,
        capacity=ask.capacity,
        remaining=ask.remaining,
        pause=ask.pause,
    )
