"""How many workers may be asked for, whatever they would bring: the cluster, other jobs, and what was tried in vain."""

import math

from .curve import noise, points
from .facts import JobFacts
from .history import comparable, tried_in_vain
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
    if (flat := _flat_from(facts, present, settings)) is not None:
        bounds.append((max(flat - 1, present), f"{flat} workers were no faster than {present}"))
    return min(bounds, key=lambda bound: bound[0])


def _flat_from(facts: JobFacts, present: int, settings: Settings) -> int | None:
    """The smallest larger size that was measured and brought next to nothing: what was seen outweighs any curve."""
    found = points(comparable(facts))
    here = next((point for point in found if point.workers == present), None)
    if here is None:
        return None
    doubt = 2 * noise(found) / math.sqrt(here.samples)
    least = here.throughput * (1 + settings.worthwhile + doubt)
    return min(
        (point.workers for point in found if point.workers > present and point.throughput <= least), default=None
    )


def _room(facts: JobFacts) -> int | None:
    if facts.capacity is None:
        return None
    need, free = facts.workers.resource, facts.capacity
    pairs = ((free.cpu, need.cpu), (free.memory, need.memory), (free.gpu, need.gpu))
    fits = [int(have // each) for have, each in pairs if each]
    return max(0, min(fits)) if fits else None
