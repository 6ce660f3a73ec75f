"""Reading a job's own past: which samples say something about the present, and what was tried and did not pay."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from statistics import median

from .facts import JobFacts, Plan, Sample
from .settings import Settings
from .units import EVALUATOR, SERVER, WORKER, Resource, RolePlan

FAILED = ("not paid", "taken back")


def machines(plan: Plan) -> tuple[object, ...]:
    """What decides the speed of a worker: everything in a plan but the number of workers, evaluators and memory."""
    servers, workers = plan.roles.get(SERVER, RolePlan(0)), plan.roles.get(WORKER, RolePlan(0))
    single = tuple(sorted((slot, own.cpu or 0.0) for slot, own in plan.slots.items()))
    return servers.replicas, servers.resource.cpu, workers.resource.cpu, single


def comparable(facts: JobFacts) -> list[Sample]:
    """The samples taken on the present machines, whatever the number of workers."""
    return list(_comparable(facts, facts.samples))


def newest(facts: JobFacts, count: int) -> list[Sample]:
    """The last few samples if they are of the present machines and of one number of workers."""
    found = list(islice(_comparable(facts, reversed(facts.samples)), count))
    return [sample for sample in reversed(found) if sample.workers == found[0].workers]


def _comparable(facts: JobFacts, samples: Iterable[Sample]) -> Iterator[Sample]:
    since = 0.0
    for older, newer in zip(facts.plans, facts.plans[1:], strict=False):
        if machines(older.plan) != machines(newer.plan):
            since = newer.time
    servers = facts.present.get(SERVER, RolePlan(0)).replicas
    return (sample for sample in samples if sample.time - sample.seconds >= since and sample.servers == servers)


def since_last_plan(facts: JobFacts, samples: Iterable[Sample]) -> list[Sample]:
    """Those of them that were begun after it: whatever is older tells of another plan."""
    last = facts.plans[-1].time if facts.plans else 0.0
    return [sample for sample in samples if sample.time - sample.seconds >= last]


def speed(samples: Sequence[Sample]) -> float:
    return median(sample.throughput for sample in samples) if samples else 0.0


def barred(facts: JobFacts, rule: str, now: float, settings: Settings) -> float:
    """Until when a rule is not to be tried again, 0 if it may be: each failure doubles the wait."""
    failures = [record for record in facts.plans if record.plan.rule == rule and record.verdict in FAILED]
    if not failures:
        return 0.0
    until = failures[-1].time + settings.hold * 2 ** (len(failures) - 1)
    return until if until > now else 0.0


def tried_in_vain(facts: JobFacts, now: float, settings: Settings) -> int | None:
    """The smallest number of workers that did not pay on the present machines and is still held against it."""
    failures = [
        record
        for record in facts.plans
        if record.verdict in FAILED and record.plan.rule in GROWTH and record.plan.roles.get(WORKER)
    ]
    held = []
    for count, record in enumerate(failures, 1):
        same = facts.plans and machines(record.plan) == machines(facts.plans[-1].plan)
        if same and record.time + settings.hold * 2 ** (count - 1) > now:
            held.append(record.plan.roles[WORKER].replicas)
    return min(held, default=None)


PROBE = "workers-probe"
GROWTH = ("workers-explore", "workers-curve", PROBE)


def changed(
    facts: JobFacts, role: str, *, replicas: int | None = None, resource: Resource | None = None
) -> dict[str, RolePlan]:
    """All roles as they are, but one."""
    old = facts.present.get(role, RolePlan(0))
    new = RolePlan(
        old.replicas if replicas is None else replicas, resource.over(old.resource) if resource else old.resource
    )
    roles = {**facts.present, role: new}
    if role == WORKER and EVALUATOR in roles and resource and facts.present[EVALUATOR].resource == old.resource:
        roles[EVALUATOR] = RolePlan(roles[EVALUATOR].replicas, new.resource)  # it runs the worker's model
    return roles
