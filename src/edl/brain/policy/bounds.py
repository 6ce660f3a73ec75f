"""How many workers may be asked for, whatever they would bring: the cluster, other jobs, and what was tried in vain."""

import math
from collections.abc import Sequence

from .evidence import Point, doubt, noise, sure
from .facts import JobFacts
from .history import tried_in_vain
from .settings import Settings
from .units import WORKER


def growth_bound(facts: JobFacts, present: int, now: float, settings: Settings) -> tuple[int, str]:
    """The most workers that may be asked for now, and what forbids more."""
    bounds = [(settings.max_workers, f"{settings.max_workers} is the most that a plan may have")]
    granted = facts.granted.get(WORKER)
    if granted is not None and granted < facts.workers.replicas:
        bounds.append((max(granted, present), f"the cluster grants {granted} of {facts.workers.replicas}"))
    if (room := _room(facts)) is not None:
        bounds.append((present + room, f"the cluster has room for {room} more"))
    if facts.share is not None:
        bounds.append((max(facts.share, present), "other jobs gain more from the room that is left"))
    if (vain := tried_in_vain(facts, now, settings)) is not None:
        bounds.append((max(vain - 1, 1), f"{vain} workers did not pay lately"))
    return min(bounds, key=lambda bound: bound[0])


def measured_bound(measured: Sequence[Point], present: int, settings: Settings) -> tuple[int, str]:
    """The most workers that are not known to bring too little: what was seen outweighs any curve. But one bad size
    does not stand for larger ones that were not as bad."""
    flat = settings.max_workers + 2  # above any other bound
    for size, vain in sorted(excluded(measured, present, settings).items(), reverse=True):
        if not vain:
            break
        flat = size
    return max(flat - 1, present), f"{flat} workers were no faster than {present}"


def excluded(measured: Sequence[Point], present: int, settings: Settings) -> dict[int, bool]:
    """By larger size that was measured: whether that surely brings too little for its workers."""
    here = next((point for point in measured if point.workers == present), None)
    if here is None:
        return {}
    varies, errors = noise(measured), sure(measured)
    return {
        point.workers: math.log(point.throughput / here.throughput) + errors * doubt(varies, here, point)
        < math.log1p(settings.marginal * (point.workers / present - 1))
        for point in measured
        if point.workers > present
    }


def _room(facts: JobFacts) -> int | None:
    if facts.capacity is None:
        return None
    need, free = facts.workers.resource, facts.capacity
    pairs = ((free.cpu, need.cpu), (free.memory, need.memory), (free.gpu, need.gpu))
    fits = [int(have // each) for have, each in pairs if each]
    return max(0, min(fits)) if fits else None
