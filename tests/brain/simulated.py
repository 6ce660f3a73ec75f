"""A job in virtual time whose throughput follows a law that the policy does not know: closed loops without waiting."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from edl.brain.policy.decide import Verdict, decide
from edl.brain.policy.facts import Capacity, Features, Incident, JobFacts, Plan, PlanRecord, PodUse, Roles, Sample
from edl.brain.policy.history import speed
from edl.brain.policy.lessons import Lesson, learn
from edl.brain.policy.settings import DEFAULTS, Settings
from edl.brain.policy.startup import Similar, start
from edl.brain.policy.units import SERVER, WORKER, Resource, RolePlan

Law = Callable[[int, Roles], float]  # throughput of so many workers under these roles
Use = Callable[[int, Roles], dict[str, PodUse]]
PERIOD = 30.0


def saturating(knee: int, rate: float = 10.0) -> Law:
    return lambda workers, roles: rate * min(workers, knee)


def amdahl(own: float, shared: float, pairs: float = 0.0) -> Law:
    return lambda workers, roles: workers / (own + shared * workers + pairs * workers * workers)


def no_use(workers: int, roles: Roles) -> dict[str, PodUse]:
    return {}


@dataclass
class SimulatedJob:
    law: Law
    use: Use = no_use
    features: Features = field(default_factory=lambda: Features(program="train.py"))
    noise: float = 0.02
    seed: int = 0
    cap: int = 1000  # the most workers that the cluster grants
    capacity: Capacity | None = None
    settings: Settings = DEFAULTS
    remaining: float = 1e9
    now: float = 1000.0
    incidents: list[Incident] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    plans: list[PlanRecord] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)

    def begin(self, similar: Similar = ()) -> Plan:
        plan = start(self.features, similar, self.capacity, self.settings)
        self._apply(plan)
        return plan

    @property
    def plan(self) -> Plan:
        return self.plans[-1].plan

    @property
    def workers(self) -> int:
        return min(self.plan.roles[WORKER].replicas, self.cap)

    def facts(self) -> JobFacts:
        return JobFacts(
            features=self.features,
            present=self.plan.roles,
            slots=self.plan.slots,
            granted={WORKER: self.workers},
            samples=tuple(self.samples),
            plans=tuple(self.plans),
            incidents=tuple(self.incidents),
            capacity=self.capacity,
            remaining=self.remaining,
            pause=2.0,
        )

    def period(self) -> Verdict:
        """One look: a sample, a decision, and what follows from it."""
        self.now += PERIOD
        random_part = random.Random(f"{self.seed} {self.now}").gauss(1.0, self.noise)
        rate = self.law(self.workers, self.plan.roles) * random_part
        servers = self.plan.roles.get(SERVER, RolePlan(0)).replicas
        pods = self.use(self.workers, self.plan.roles)
        self.samples.append(Sample(self.now, PERIOD - 1, self.workers, max(rate, 0.0), servers, pods))
        verdict = decide(self.facts(), self.now, self.settings)
        self.verdicts.append(verdict)
        if verdict.judgement is not None:
            changes = {"obtained": verdict.judgement.obtained, "verdict": verdict.judgement.verdict}
            self.plans[-1] = msgspec.structs.replace(self.plans[-1], **changes)
        if verdict.plan is not None:
            self._apply(verdict.plan)
        return verdict

    def run(self, periods: int) -> list[int]:
        """The sizes of all plans, the first one included."""
        for _ in range(periods):
            self.period()
        return [record.plan.roles[WORKER].replicas for record in self.plans]

    def lesson(self, name: str = "ns/past") -> Lesson:
        return learn(name, self.facts(), self.now, "succeeded", self.settings)

    def _apply(self, plan: Plan) -> None:
        before = speed(self.samples[-self.settings.samples :])
        self.plans.append(PlanRecord(len(self.plans) + 1, self.now, plan, before))


def roles(workers: int, servers: int = 0, *, cpu: float = 1.0, memory: int = 2048) -> Roles:
    each = Resource(cpu=cpu, memory=memory)
    found = {WORKER: RolePlan(workers, each)}
    return found | ({SERVER: RolePlan(servers, each)} if servers else {})
