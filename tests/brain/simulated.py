"""A job in virtual time whose throughput follows a law that the policy does not know: closed loops without waiting."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from edl.brain.policy.decide import Decision, decide
from edl.brain.policy.evaluation import evaluated
from edl.brain.policy.history import median_throughput
from edl.brain.policy.past_jobs import JobSummary, summarise
from edl.brain.policy.settings import DEFAULTS, Settings
from edl.brain.policy.startup import Similar, startup_plan
from edl.protocol.job_facts import (
    Capacity,
    Features,
    Incident,
    JobFacts,
    PlanRecord,
    PodUsage,
    ResourcePlan,
    Roles,
    Sample,
)
from edl.protocol.resources import SERVER, WORKER, Resource, RolePlan

Law = Callable[[int, Roles], float]  # throughput of so many workers under these roles
Use = Callable[[int, Roles], dict[str, PodUsage]]
PERIOD = 30.0


def saturating(knee: int, rate: float = 10.0) -> Law:
    return lambda workers, roles: rate * min(workers, knee)


def amdahl(own: float, shared: float, pairs: float = 0.0) -> Law:
    return lambda workers, roles: workers / (own + shared * workers + pairs * workers * workers)


def no_use(workers: int, roles: Roles) -> dict[str, PodUsage]:
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
    decisions: list[Decision] = field(default_factory=list)

    def begin(self, similar: Similar = ()) -> ResourcePlan:
        plan = startup_plan(self.features, similar, self.capacity, self.settings)
        self._apply(plan)
        return plan

    @property
    def plan(self) -> ResourcePlan:
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

    def period(self) -> Decision:
        """One look: a sample, a decision, and what follows from it."""
        self.now += PERIOD
        random_part = random.Random(f"{self.seed} {self.now}").gauss(1.0, self.noise)
        rate = self.law(self.workers, self.plan.roles) * random_part
        servers = self.plan.roles.get(SERVER, RolePlan(0)).replicas
        pods = self.use(self.workers, self.plan.roles)
        self.samples.append(Sample(self.now, PERIOD - 1, self.workers, max(rate, 0.0), servers, pods))
        decision = decide(self.facts(), self.now, self.settings)
        self.decisions.append(decision)
        if decision.evaluation is not None:
            self.plans[-1] = evaluated(self.plans[-1], decision.evaluation)
        if decision.plan is not None:
            self._apply(decision.plan)
        return decision

    def run(self, periods: int) -> list[int]:
        """The sizes of all plans, the first one included."""
        for _ in range(periods):
            self.period()
        return [record.plan.roles[WORKER].replicas for record in self.plans]

    def summary(self, name: str = "ns/past") -> JobSummary:
        return summarise(name, self.facts(), self.now, "succeeded", self.settings)

    def _apply(self, plan: ResourcePlan) -> None:
        before = median_throughput(self.samples[-self.settings.samples :])
        self.plans.append(PlanRecord(len(self.plans) + 1, self.now, plan, before))


def roles(workers: int, servers: int = 0, *, cpu: float = 1.0, memory: int = 2048) -> Roles:
    each = Resource(cpu=cpu, memory=memory)
    found = {WORKER: RolePlan(workers, each)}
    return found | ({SERVER: RolePlan(servers, each)} if servers else {})
