"""Memory: more before a pod is killed for want of it, and more at once after one was.

Covers optimize_job_ps_oom_resource (rule 6) and optimize_job_worker_create_oom_resource (8) for running jobs.
"""

import msgspec

from .facts import OOM, Incident, JobFacts, Plan, PodUse, Roles, Sample
from .servers import memory_of_servers
from .settings import Settings
from .units import EVALUATOR, SERVER, WORKER, Resource, RolePlan, mebibytes


def after_oom(facts: JobFacts, settings: Settings) -> Plan | str | None:
    """None: nobody was killed for want of memory since the last plan. A word: it cannot be mended by memory."""
    since = facts.plans[-1].time if facts.plans else 0.0
    killed = [incident for incident in facts.incidents if incident.reason == OOM and incident.time > since]
    if not killed:
        return None
    mended = _Mended(dict(facts.present), dict(facts.slots), [])
    for role in sorted({incident.role for incident in killed}):
        _mend(facts, mended, [incident for incident in killed if incident.role == role], settings)
    words = "; ".join(mended.words)
    if (mended.roles, mended.slots) == (dict(facts.present), dict(facts.slots)):
        return words
    return Plan(rule="oom", reason=words, roles=mended.roles, slots=mended.slots, confidence=0.8)


class _Mended(msgspec.Struct):
    roles: Roles
    slots: dict[str, Resource]
    words: list[str]


def _mend(facts: JobFacts, mended: _Mended, killed: list[Incident], settings: Settings) -> None:
    """One role's kills. A worker's memory is every worker's; a parameter server that alone is full gets more alone."""
    slot, role = killed[-1].slot, killed[-1].role
    present = facts.present.get(role, RolePlan(0))
    had = max(*(incident.memory for incident in killed), present.resource.memory or 0)
    wanted = _more(had, settings)
    if role == SERVER and _alike(facts, had, settings):
        mended.roles = {**mended.roles, SERVER: RolePlan(2 * present.replicas, present.resource)}
        count = f"{2 * present.replicas} instead of {present.replicas}"
        mended.words.append(f"parameter servers ran out of {had} MiB each, all alike: {count}")
    elif present.replicas == 0 or wanted <= had:
        mended.words.append(f"{slot} was killed with {had} MiB, the most that a plan may give")
    elif role == SERVER and present.replicas > 1:
        for name in sorted({incident.slot for incident in killed if facts.has(incident.slot)}):
            mended.slots[name] = Resource(memory=wanted).over(mended.slots.get(name, Resource()))
        mended.words.append(f"{slot} alone was killed for want of memory with {had} MiB: it gets {wanted}")
    else:
        mended.roles = _with_memory(mended.roles, role, wanted)
        mended.words.append(f"{slot} was killed for want of memory with {had} MiB: every {role} gets {wanted}")


def _with_memory(roles: Roles, role: str, memory: int) -> Roles:
    old = roles[role]
    return {**roles, role: RolePlan(old.replicas, Resource(memory=memory).over(old.resource))}


def _more(had: int, settings: Settings) -> int:
    """Twice as much, but no more than a step at once, and never above the bound."""
    base = had or settings.cold_memory
    return min(settings.max_memory, mebibytes(min(base * settings.oom_factor, base + settings.oom_step)))


def _alike(facts: JobFacts, had: int, settings: Settings) -> bool:
    """Whether more servers are the answer: all are full alike, or none can get larger, and there may be more."""
    present = facts.present.get(SERVER, RolePlan(0))
    used = [use.memory for use in _last_use(facts.samples)]
    even = len(used) > 1 and max(used) > 0 and (max(used) - sum(used) / len(used)) / max(used) <= settings.skew
    return (even or had >= settings.max_memory) and 0 < 2 * present.replicas <= settings.max_servers


def _last_use(samples: tuple[Sample, ...]) -> list[PodUse]:
    return next((found for sample in reversed(samples) if (found := sample.of(SERVER))), [])


def headroom(facts: JobFacts, settings: Settings) -> Plan | None:
    """Pods whose memory is nearly full get more before they are killed for it."""
    roles, words = dict(facts.present), []
    for role in (WORKER, EVALUATOR):
        uses = [use for sample in facts.samples[-3:] for use in sample.of(role) if use.memory_limit]
        limit = facts.present.get(role, RolePlan(0)).resource.memory or 0
        peak = max((use.memory for use in uses if use.memory_limit >= limit), default=0)
        wanted = min(settings.max_memory, mebibytes(peak * settings.headroom))
        if limit and peak > settings.memory_hot * limit and wanted > limit:
            roles = _with_memory(roles, role, wanted)
            words.append(f"a {role} uses {peak} of {limit} MiB: {wanted}")
    full = memory_of_servers(facts, settings)
    words += [f"{slot} is nearly full: {own.memory} MiB" for slot, own in sorted(full.items())]
    if not words:
        return None
    slots = {**facts.slots, **{slot: own.over(facts.slots.get(slot, Resource())) for slot, own in full.items()}}
    return Plan(rule="memory", reason="; ".join(words), roles=roles, slots=slots, confidence=0.8)
