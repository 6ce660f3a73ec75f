"""Upper bounds of plans, whatever they would add: limits, grants, free capacity, other jobs and failed sizes."""

import math
from collections.abc import Sequence

import msgspec

from edl.brain.policy.history import smallest_failed_size
from edl.brain.policy.settings import Settings
from edl.protocol.job_facts import JobFacts, ResourcePlan, Roles
from edl.protocol.resources import SERVER, WORKER, Resource, RolePlan
from edl.throughput.points import ThroughputPoint, confidence_factor, noise, standard_error


def growth_bound(facts: JobFacts, present: int, now: float, settings: Settings) -> tuple[int, str]:
    """The most workers that may be requested now, and the reason."""
    bounds = [(settings.max_workers, f"{settings.max_workers} is the most that a plan may have")]
    granted = facts.granted.get(WORKER)
    if granted is not None and granted < facts.workers.replicas:
        bounds.append((max(granted, present), f"the cluster grants {granted} of {facts.workers.replicas}"))
    if (free := facts.capacity.fits(facts.workers.resource) if facts.capacity else None) is not None:
        bounds.append((present + free, f"the cluster has room for {free} more"))
    if facts.share is not None:
        bounds.append((max(facts.share, present), "other jobs gain more from the room that is left"))
    if (failed := smallest_failed_size(facts, now, settings)) is not None:
        bounds.append((max(failed - 1, 1), f"{failed} workers did not pay lately"))
    return min(bounds, key=lambda bound: bound[0])


def measured_bound(measured: Sequence[ThroughputPoint], present: int, settings: Settings) -> tuple[int, str]:
    """The most workers that are not known to add too little, and the reason. A measurement outweighs any curve, but one
    slow size does not exclude larger ones that were faster."""
    flat = settings.max_workers + 2  # above any other bound
    for size, too_slow in sorted(sizes_too_slow(measured, present, settings).items(), reverse=True):
        if not too_slow:
            break
        flat = size
    return max(flat - 1, present), f"{flat} workers were no faster than {present}"


def sizes_too_slow(measured: Sequence[ThroughputPoint], present: int, settings: Settings) -> dict[int, bool]:
    """By measured size above the present one: whether it surely adds too little for its workers."""
    here = next((point for point in measured if point.workers == present), None)
    if here is None:
        return {}
    varies, errors = noise(measured), confidence_factor(measured)
    return {
        point.workers: math.log(point.throughput / here.throughput) + errors * standard_error(varies, here, point)
        < math.log1p(settings.marginal * (point.workers / present - 1))
        for point in measured
        if point.workers > present
    }


def bounded(plan: ResourcePlan, settings: Settings, present: Roles) -> ResourcePlan:
    """The plan without what goes beyond the bounds; what the job has already is not taken from it for that."""
    roles = {name: _bounded_role(name, role, settings, present.get(name)) for name, role in plan.roles.items()}
    if roles == plan.roles:
        return plan
    reason = f"{plan.reason}; no more than this job allows"
    return msgspec.structs.replace(plan, roles=roles, reason=reason[:2000])


def _bounded_role(name: str, role: RolePlan, settings: Settings, present: RolePlan | None) -> RolePlan:
    most = {WORKER: settings.max_workers, SERVER: settings.max_servers}.get(name, role.replicas)
    held = present or RolePlan(0)
    resource = smaller(role.resource, settings.max_cpu, settings.max_memory, held.resource)
    return RolePlan(min(role.replicas, max(1, most, held.replicas)), resource)


def smaller(resource: Resource, cpu: float, memory: int, least: Resource) -> Resource:
    """At most so many cores and so much memory, or what there is in `least` if that is more."""
    return msgspec.structs.replace(
        resource,
        cpu=None if resource.cpu is None else min(resource.cpu, max(cpu, least.cpu or 0.0)),
        memory=None if resource.memory is None else min(resource.memory, max(memory, least.memory or 0)),
    )
