"""Grants memory: more before a pod is killed for want of it, and more at once after one was.

Takes the place of the reference rules `optimize_job_ps_oom_resource` and `optimize_job_worker_create_oom_resource`
(docs/concepts/brain.md) for running jobs.
"""

import msgspec

from edl.brain.policy.proposal import NOT_APPLICABLE, Proposal, hold, propose
from edl.brain.policy.rules import MEMORY, OOM_KILL
from edl.brain.policy.servers import server_memory
from edl.brain.policy.settings import Settings
from edl.protocol.job_facts import OOM, Incident, JobFacts, PodUsage, ResourcePlan, Roles, Sample
from edl.protocol.resources import EVALUATOR, SERVER, WORKER, Resource, RolePlan, mebibytes


def after_oom(facts: JobFacts, now: float, settings: Settings) -> Proposal:
    """Answers OOM kills since the last plan. Holds everything if no plan may give more memory."""
    since = facts.plans[-1].time if facts.plans else 0.0
    killed = [incident for incident in facts.incidents if incident.reason == OOM and incident.time > since]
    if not killed:
        return NOT_APPLICABLE
    changes = _Changes(dict(facts.present), dict(facts.slots), [])
    for role in sorted({incident.role for incident in killed}):
        _answer_kills(facts, changes, [incident for incident in killed if incident.role == role], settings)
    reason = "; ".join(changes.reasons)
    if (changes.roles, changes.slots) == (dict(facts.present), dict(facts.slots)):
        return hold(reason)
    return propose(ResourcePlan(OOM_KILL, reason, changes.roles, changes.slots, confidence=0.8))


class _Changes(msgspec.Struct):
    roles: Roles
    slots: dict[str, Resource]
    reasons: list[str]


def _answer_kills(facts: JobFacts, changes: _Changes, killed: list[Incident], settings: Settings) -> None:
    """Answers the kills of one role. Workers all get the same memory; a parameter server that alone is full gets more
    alone."""
    slot, role = killed[-1].slot, killed[-1].role
    present = facts.present.get(role, RolePlan(0))
    had = max(*(incident.memory for incident in killed), present.resource.memory or 0)
    wanted = _more_memory(had, settings)
    if role == SERVER and _evenly_full(facts, had, settings):
        changes.roles = {**changes.roles, SERVER: RolePlan(2 * present.replicas, present.resource)}
        count = f"{2 * present.replicas} instead of {present.replicas}"
        changes.reasons.append(f"parameter servers ran out of {had} MiB each, all alike: {count}")
    elif present.replicas == 0 or wanted <= had:
        changes.reasons.append(f"{slot} was killed with {had} MiB, the most that a plan may give")
    elif role == SERVER and present.replicas > 1:
        for name in sorted({incident.slot for incident in killed if facts.has(incident.slot)}):
            changes.slots[name] = Resource(memory=wanted).over(changes.slots.get(name, Resource()))
        changes.reasons.append(f"{slot} alone was killed for want of memory with {had} MiB: it gets {wanted}")
    else:
        changes.roles = _with_memory(changes.roles, role, wanted)
        changes.reasons.append(f"{slot} was killed for want of memory with {had} MiB: every {role} gets {wanted}")


def _with_memory(roles: Roles, role: str, memory: int) -> Roles:
    old = roles[role]
    return {**roles, role: RolePlan(old.replicas, Resource(memory=memory).over(old.resource))}


def _more_memory(had: int, settings: Settings) -> int:
    """Twice as much, but no more than a step at once, and never above the bound."""
    base = had or settings.cold_memory
    return min(settings.max_memory, mebibytes(min(base * settings.oom_factor, base + settings.oom_step)))


def _evenly_full(facts: JobFacts, had: int, settings: Settings) -> bool:
    """Whether to add servers: all are equally full, or none can get larger, and more are allowed."""
    present = facts.present.get(SERVER, RolePlan(0))
    used = [use.memory for use in _last_usage(facts.samples)]
    even = len(used) > 1 and max(used) > 0 and (max(used) - sum(used) / len(used)) / max(used) <= settings.skew
    return (even or had >= settings.max_memory) and 0 < 2 * present.replicas <= settings.max_servers


def _last_usage(samples: tuple[Sample, ...]) -> list[PodUsage]:
    return next((found for sample in reversed(samples) if (found := sample.of(SERVER))), [])


def headroom(facts: JobFacts, now: float, settings: Settings) -> Proposal:
    """Gives pods whose memory is nearly full more before they are killed for it."""
    roles, reasons = dict(facts.present), []
    for role in (WORKER, EVALUATOR):
        uses = [use for sample in facts.samples[-3:] for use in sample.of(role) if use.memory_limit]
        limit = facts.present.get(role, RolePlan(0)).resource.memory or 0
        peak = max((use.memory for use in uses if use.memory_limit >= limit), default=0)
        wanted = min(settings.max_memory, mebibytes(peak * settings.headroom))
        if limit and peak > settings.memory_hot * limit and wanted > limit:
            roles = _with_memory(roles, role, wanted)
            reasons.append(f"a {role} uses {peak} of {limit} MiB: {wanted}")
    full = server_memory(facts, settings)
    reasons += [f"{slot} is nearly full: {own.memory} MiB" for slot, own in sorted(full.items())]
    if not reasons:
        return NOT_APPLICABLE
    slots = {**facts.slots, **{slot: own.over(facts.slots.get(slot, Resource())) for slot, own in full.items()}}
    return propose(ResourcePlan(MEMORY, "; ".join(reasons), roles, slots, confidence=0.8))
