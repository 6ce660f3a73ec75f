"""Scales parameter servers: relieves hot ones, trims oversized ones, and finds those short of memory.

Takes the place of the reference rules `optimize_job_hot_ps_resource`, `optimize_job_ps_init_adjust_resource` and
`optimize_job_ps_resource_util` (docs/concepts/brain.md). Does not assume that more cores help a server: such a plan is
evaluated like any other, and if it did not pay, the next one asks for more servers instead.
"""

import math
from statistics import mean

from edl.brain.policy.bounds import growth_bound, measured_bound
from edl.brain.policy.history import backoff_until, comparable_samples, latest_samples, median_throughput, with_role
from edl.brain.policy.measurements import throughput_points
from edl.brain.policy.proposal import NOT_APPLICABLE, Proposal, propose
from edl.brain.policy.rules import SERVER_HOT, SERVERS_COUNT, SERVERS_CPU, SERVERS_TRIM
from edl.brain.policy.server_load import SAMPLES, cpu_loads, server_usage
from edl.brain.policy.settings import Settings
from edl.protocol.job_facts import JobFacts, PodUsage, ResourcePlan, Sample
from edl.protocol.resources import SERVER, WORKER, Resource, RolePlan, cores, mebibytes

STEP = 1.5  # growth factor of one plan


def relieve_servers(facts: JobFacts, now: float, settings: Settings) -> Proposal:
    """Adds cores or servers where saturated servers hold the workers up."""
    samples = latest_samples(facts, SAMPLES)
    if len(samples) < min(SAMPLES, settings.samples + 1) or facts.present.get(SERVER, RolePlan(0)).replicas == 0:
        return NOT_APPLICABLE
    shares = cpu_loads(samples)
    hot = {slot: share for slot, share in shares.items() if share > settings.hot and facts.has(slot)}
    if not hot:
        return NOT_APPLICABLE
    others = [share for slot, share in shares.items() if slot not in hot]
    skewed = bool(others) and max(hot.values()) - mean(others) > settings.skew
    candidates = [_hot_slots(facts, samples, hot, settings)] if skewed else []
    candidates += [_more_cores(facts, samples, now, settings), _more_servers(facts, samples, now, settings)]
    allowed = (plan for plan in candidates if plan and not backoff_until(facts, plan.rule, now, settings))
    plan = next(allowed, None)
    return propose(plan) if plan else NOT_APPLICABLE


def _hot_slots(
    facts: JobFacts, samples: list[Sample], hot: dict[str, float], settings: Settings
) -> ResourcePlan | None:
    """More cores for single slots, while the others have enough."""
    limits = {slot: use.cpu_limit for slot, use in server_usage(samples[-1]).items()}
    wanted = {
        slot: Resource(cpu=min(settings.max_cpu, cores(limits[slot] * share / settings.hot * 1.5)))
        for slot, share in hot.items()
    }
    wanted = {slot: new for slot, new in wanted.items() if (new.cpu or 0) > limits[slot]}
    if not wanted:
        return None
    merged = {slot: new.over(facts.slots.get(slot, Resource())) for slot, new in wanted.items()}
    named = ", ".join(f"{slot} ({hot[slot]:.0%} busy) to {new.cpu:g} cores" for slot, new in sorted(wanted.items()))
    return ResourcePlan(
        rule=SERVER_HOT,
        reason=f"hot parameter servers hold the others up: {named}",
        roles=dict(facts.present),
        slots={**facts.slots, **merged},
        confidence=0.5,
        gain=_expected_gain(max(hot.values()), settings),
        expected=round(median_throughput(samples) * (1 + _expected_gain(max(hot.values()), settings)), 3),
    )


def _more_cores(facts: JobFacts, samples: list[Sample], now: float, settings: Settings) -> ResourcePlan | None:
    present = facts.present[SERVER]
    limit = max(use.cpu_limit for use in server_usage(samples[-1]).values())
    wanted = cores(limit * STEP)
    if wanted > min(settings.largest_server, settings.max_cpu) or not _fits(facts, present.replicas * (wanted - limit)):
        return None
    change = f"{wanted:g} cores each instead of {limit:g}"
    new = RolePlan(present.replicas, Resource(cpu=wanted).over(present.resource))
    return _with_workers(facts, samples, new, (SERVERS_CPU, change, STEP), now, settings)


def _more_servers(facts: JobFacts, samples: list[Sample], now: float, settings: Settings) -> ResourcePlan | None:
    present = facts.present[SERVER]
    wanted = min(settings.max_servers, max(present.replicas + 1, math.ceil(present.replicas * STEP)))
    each = present.resource.cpu or max(use.cpu_limit for use in server_usage(samples[-1]).values())
    if wanted <= present.replicas or not _fits(facts, (wanted - present.replicas) * each):
        return None
    change = f"{wanted} of them instead of {present.replicas}"
    factor = wanted / present.replicas
    return _with_workers(
        facts, samples, RolePlan(wanted, present.resource), (SERVERS_COUNT, change, factor), now, settings
    )


def _with_workers(
    facts: JobFacts,
    samples: list[Sample],
    servers: RolePlan,
    what: tuple[str, str, float],
    now: float,
    settings: Settings,
) -> ResourcePlan:
    """Grows workers together with the servers: servers alone add nothing if they were just enough."""
    rule, change, factor = what
    load, here = max(cpu_loads(samples).values()), samples[-1].workers
    measured = throughput_points(comparable_samples(facts))
    bound, _ = min(growth_bound(facts, here, now, settings), measured_bound(measured, here, settings))
    count = max(here, min(bound, math.floor(here * factor)))
    gain = round(max(0.1, min(factor, load / settings.hot) - 1), 4)
    more = f", and {count} workers instead of {here}" if count > here else ""
    return ResourcePlan(
        rule=rule,
        reason=f"parameter servers are {load:.0%} busy: {change}{more}",
        roles={**with_role(facts, WORKER, replicas=max(count, facts.workers.replicas)), SERVER: servers},
        slots=facts.slots,
        confidence=0.5,
        gain=gain,
        expected=round(median_throughput(samples) * (1 + gain), 3),
    )


def trim_servers(facts: JobFacts, now: float, settings: Settings) -> Proposal:
    """Gives back cores that servers do not use, if the job lasts long enough for it to matter."""
    samples = latest_samples(facts, 2 * SAMPLES)
    rate = median_throughput(samples)
    if len(samples) < 2 * SAMPLES or facts.remaining < settings.trim_seconds * max(rate, 1e-9):
        return NOT_APPLICABLE
    shares = cpu_loads(samples)
    if not shares or max(shares.values()) > settings.cold or backoff_until(facts, SERVERS_TRIM, now, settings):
        return NOT_APPLICABLE
    uses = [use for sample in samples for use in sample.of(SERVER)]
    wanted = cores(max(use.cpu for use in uses) * settings.headroom)
    limit = max(use.cpu_limit for use in uses)
    if wanted > limit * (1 - settings.skew):
        return NOT_APPLICABLE
    plan = ResourcePlan(
        rule=SERVERS_TRIM,
        reason=f"parameter servers use {max(shares.values()):.0%} of {limit:g} cores: {wanted:g} are enough",
        roles=with_role(facts, SERVER, resource=Resource(cpu=wanted)),
        slots={slot: own for slot, own in facts.slots.items() if not slot.startswith(f"{SERVER}-")},
        confidence=0.7,
        expected=round(rate, 3),
    )
    return propose(plan)


def server_memory(facts: JobFacts, settings: Settings) -> dict[str, Resource]:
    """More memory by slot, for servers above the mark in all of the latest samples."""
    samples = latest_samples(facts, SAMPLES)
    if len(samples) < SAMPLES:
        return {}
    full: dict[str, Resource] = {}
    for slot, use in server_usage(samples[-1]).items():
        shares = [server_usage(sample).get(slot, PodUsage()) for sample in samples]
        if facts.has(slot) and all(
            each.memory_limit and each.memory > settings.memory_hot * each.memory_limit for each in shares
        ):
            wanted = min(settings.max_memory, mebibytes(use.memory * settings.headroom))
            if wanted > use.memory_limit:
                full[slot] = Resource(memory=wanted)
    return full


def _expected_gain(load: float, settings: Settings) -> float:
    """By how much the load exceeds the `hot` mark; at least a tenth, as a full server may carry much more."""
    return round(max(0.1, load / settings.hot - 1), 4)


def _fits(facts: JobFacts, more: float) -> bool:
    return facts.capacity is None or more <= facts.capacity.cpu
