"""Reads a job's own past: samples that are comparable with the present, and plans that did not pay."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from statistics import median

from edl.brain.policy.rules import GROWTH_RULES
from edl.brain.policy.settings import Settings
from edl.protocol.job_facts import JobFacts, ResourcePlan, Sample
from edl.protocol.resources import EVALUATOR, SERVER, WORKER, Resource, RolePlan

FAILED = ("not paid", "taken back")


def hardware(plan: ResourcePlan) -> tuple[object, ...]:
    """What decides a worker's speed: all of a plan but the number of workers, the evaluators and memory."""
    servers, workers = plan.roles.get(SERVER, RolePlan(0)), plan.roles.get(WORKER, RolePlan(0))
    single = tuple(sorted((slot, own.cpu or 0.0) for slot, own in plan.slots.items()))
    return servers.replicas, servers.resource.cpu, workers.resource.cpu, single


def comparable_samples(facts: JobFacts) -> list[Sample]:
    """The samples taken on the present hardware, whatever the number of workers."""
    return list(_comparable_among(facts, facts.samples))


def latest_samples(facts: JobFacts, count: int) -> list[Sample]:
    """The last `count` samples on the present hardware, as far as they have one number of workers."""
    found = list(islice(_comparable_among(facts, reversed(facts.samples)), count))
    return [sample for sample in reversed(found) if sample.workers == found[0].workers]


def _comparable_among(facts: JobFacts, samples: Iterable[Sample]) -> Iterator[Sample]:
    since = 0.0
    for older, newer in zip(facts.plans, facts.plans[1:], strict=False):
        if hardware(older.plan) != hardware(newer.plan):
            since = newer.time
    servers = facts.present.get(SERVER, RolePlan(0)).replicas
    return (sample for sample in samples if sample.time - sample.seconds >= since and sample.servers == servers)


def since_last_plan(facts: JobFacts, samples: Iterable[Sample]) -> list[Sample]:
    """The samples that began after the last plan; older ones describe another plan."""
    last = facts.plans[-1].time if facts.plans else 0.0
    return [sample for sample in samples if sample.time - sample.seconds >= last]


def median_throughput(samples: Sequence[Sample]) -> float:
    return median(sample.throughput for sample in samples) if samples else 0.0


def backoff_until(facts: JobFacts, rule: str, now: float, settings: Settings) -> float:
    """The time until which a rule must not be tried again; 0 if it may be. Each failure doubles the wait."""
    failures = [record for record in facts.plans if record.plan.rule == rule and record.verdict in FAILED]
    if not failures:
        return 0.0
    until = failures[-1].time + settings.hold * 2 ** (len(failures) - 1)
    return until if until > now else 0.0


def smallest_failed_size(facts: JobFacts, now: float, settings: Settings) -> int | None:
    """The smallest number of workers that did not pay on the present hardware and is still backing off."""
    failures = [
        record
        for record in facts.plans
        if record.verdict in FAILED and record.plan.rule in GROWTH_RULES and record.plan.roles.get(WORKER)
    ]
    held = []
    for count, record in enumerate(failures, 1):
        same = facts.plans and hardware(record.plan) == hardware(facts.plans[-1].plan)
        if same and record.time + settings.hold * 2 ** (count - 1) > now:
            held.append(record.plan.roles[WORKER].replicas)
    return min(held, default=None)


def with_role(
    facts: JobFacts, role: str, *, replicas: int | None = None, resource: Resource | None = None
) -> dict[str, RolePlan]:
    """The present roles with one changed."""
    old = facts.present.get(role, RolePlan(0))
    new = RolePlan(
        old.replicas if replicas is None else replicas, resource.over(old.resource) if resource else old.resource
    )
    roles = {**facts.present, role: new}
    if role == WORKER and EVALUATOR in roles and resource and facts.present[EVALUATOR].resource == old.resource:
        roles[EVALUATOR] = RolePlan(roles[EVALUATOR].replicas, new.resource)  # it runs the worker's model
    return roles
