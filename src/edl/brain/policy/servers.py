"""Parameter servers: one that is hot, all that are, too large ones, and their memory.

Covers optimize_job_hot_ps_resource (rule 4), optimize_job_ps_init_adjust_resource (3) and
optimize_job_ps_resource_util (5). Whether more cores help a server at all is not assumed: such a plan is judged by
what it brings, and if that was nothing, the next one asks for more servers instead.
"""

import math
from statistics import mean

from .bounds import growth_bound, measured_bound
from .evidence import points
from .facts import JobFacts, Plan, PodUse, Sample
from .history import barred, changed, comparable, newest, speed
from .load import LOOKS, loads, server_uses
from .settings import Settings
from .units import SERVER, WORKER, Resource, RolePlan, cores, mebibytes

STEP = 1.5  # how much more at once


def servers(facts: JobFacts, now: float, settings: Settings) -> Plan | None:
    """More for servers that hold the workers up."""
    samples = newest(facts, LOOKS)
    if len(samples) < min(LOOKS, settings.samples + 1) or facts.present.get(SERVER, RolePlan(0)).replicas == 0:
        return None
    shares = loads(samples)
    hot = {slot: share for slot, share in shares.items() if share > settings.hot and facts.has(slot)}
    if not hot:
        return None
    others = [share for slot, share in shares.items() if slot not in hot]
    skewed = bool(others) and max(hot.values()) - mean(others) > settings.skew
    attempts = [_hot_slots(facts, samples, hot, settings)] if skewed else []
    attempts += [_more_cores(facts, samples, now, settings), _more_servers(facts, samples, now, settings)]
    return next((plan for plan in attempts if plan and not barred(facts, plan.rule, now, settings)), None)


def _hot_slots(facts: JobFacts, samples: list[Sample], hot: dict[str, float], settings: Settings) -> Plan | None:
    """Single slots get more cores: the others have enough."""
    limits = {slot: use.cpu_limit for slot, use in server_uses(samples[-1]).items()}
    wanted = {
        slot: Resource(cpu=min(settings.max_cpu, cores(limits[slot] * share / settings.hot * 1.5)))
        for slot, share in hot.items()
    }
    wanted = {slot: new for slot, new in wanted.items() if (new.cpu or 0) > limits[slot]}
    if not wanted:
        return None
    merged = {slot: new.over(facts.slots.get(slot, Resource())) for slot, new in wanted.items()}
    named = ", ".join(f"{slot} ({hot[slot]:.0%} busy) to {new.cpu:g} cores" for slot, new in sorted(wanted.items()))
    return Plan(
        rule="server-hot",
        reason=f"hot parameter servers hold the others up: {named}",
        roles=dict(facts.present),
        slots={**facts.slots, **merged},
        confidence=0.5,
        gain=_expected_gain(max(hot.values()), settings),
        expected=round(speed(samples) * (1 + _expected_gain(max(hot.values()), settings)), 3),
    )


def _more_cores(facts: JobFacts, samples: list[Sample], now: float, settings: Settings) -> Plan | None:
    present = facts.present[SERVER]
    limit = max(use.cpu_limit for use in server_uses(samples[-1]).values())
    wanted = cores(limit * STEP)
    if wanted > settings.largest_server or not _fits(facts, present.replicas * (wanted - limit)):
        return None
    words = f"{wanted:g} cores each instead of {limit:g}"
    new = RolePlan(present.replicas, Resource(cpu=wanted).over(present.resource))
    return _together(facts, samples, new, ("servers-cpu", words, STEP), now, settings)


def _more_servers(facts: JobFacts, samples: list[Sample], now: float, settings: Settings) -> Plan | None:
    present = facts.present[SERVER]
    wanted = min(settings.max_servers, max(present.replicas + 1, math.ceil(present.replicas * STEP)))
    each = present.resource.cpu or max(use.cpu_limit for use in server_uses(samples[-1]).values())
    if wanted <= present.replicas or not _fits(facts, (wanted - present.replicas) * each):
        return None
    words = f"{wanted} of them instead of {present.replicas}"
    factor = wanted / present.replicas
    return _together(
        facts, samples, RolePlan(wanted, present.resource), ("servers-count", words, factor), now, settings
    )


def _together(
    facts: JobFacts,
    samples: list[Sample],
    servers: RolePlan,
    what: tuple[str, str, float],
    now: float,
    settings: Settings,
) -> Plan:
    """Workers grow with the servers that feed them: servers alone bring nothing if they were just enough."""
    rule, words, factor = what
    load, here = max(loads(samples).values()), samples[-1].workers
    measured = points(comparable(facts))
    bound, _ = min(growth_bound(facts, here, now, settings), measured_bound(measured, here, settings))
    count = max(here, min(bound, math.floor(here * factor)))
    gain = round(max(0.1, min(factor, load / settings.hot) - 1), 4)
    more = f", and {count} workers instead of {here}" if count > here else ""
    return Plan(
        rule=rule,
        reason=f"parameter servers are {load:.0%} busy: {words}{more}",
        roles={**changed(facts, WORKER, replicas=max(count, facts.workers.replicas)), SERVER: servers},
        slots=facts.slots,
        confidence=0.5,
        gain=gain,
        expected=round(speed(samples) * (1 + gain), 3),
    )


def trim(facts: JobFacts, now: float, settings: Settings) -> Plan | None:
    """Cores that servers have not used are given back, if the job lasts long enough for it to matter."""
    samples = newest(facts, 2 * LOOKS)
    rate = speed(samples)
    if len(samples) < 2 * LOOKS or facts.remaining < settings.trim_seconds * max(rate, 1e-9):
        return None
    shares = loads(samples)
    if not shares or max(shares.values()) > settings.cold or barred(facts, "servers-trim", now, settings):
        return None
    uses = [use for sample in samples for use in sample.of(SERVER)]
    wanted = cores(max(use.cpu for use in uses) * settings.headroom)
    limit = max(use.cpu_limit for use in uses)
    if wanted > limit * (1 - settings.skew):
        return None
    return Plan(
        rule="servers-trim",
        reason=f"parameter servers use {max(shares.values()):.0%} of {limit:g} cores: {wanted:g} are enough",
        roles=changed(facts, SERVER, resource=Resource(cpu=wanted)),
        slots={slot: own for slot, own in facts.slots.items() if not slot.startswith(f"{SERVER}-")},
        confidence=0.7,
        expected=round(rate, 3),
    )


def memory_of_servers(facts: JobFacts, settings: Settings) -> dict[str, Resource]:
    """Single slots whose memory fills up, before they are killed for it: in all of the last looks above the mark."""
    samples = newest(facts, LOOKS)
    if len(samples) < LOOKS:
        return {}
    full: dict[str, Resource] = {}
    for slot, use in server_uses(samples[-1]).items():
        shares = [server_uses(sample).get(slot, PodUse()) for sample in samples]
        if facts.has(slot) and all(
            each.memory_limit and each.memory > settings.memory_hot * each.memory_limit for each in shares
        ):
            wanted = min(settings.max_memory, mebibytes(use.memory * settings.headroom))
            if wanted > use.memory_limit:
                full[slot] = Resource(memory=wanted)
    return full


def _expected_gain(load: float, settings: Settings) -> float:
    """What is 0.95 busy can carry a quarter more before it is 0.8 busy; a full one may carry much more."""
    return round(max(0.1, load / settings.hot - 1), 4)


def _fits(facts: JobFacts, more: float) -> bool:
    return facts.capacity is None or more <= facts.capacity.cpu
