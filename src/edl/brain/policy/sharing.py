"""Room that several jobs want: each further worker goes where it brings most.

A worker of a job is worth the share by which it raises that job's throughput, per core that it takes, times the job's
weight. Jobs are served in that order until nothing fits any more. What the scheduler then grants is its own affair;
this only keeps Brain from advising ten jobs to take the same free cores.
"""

import heapq
from collections.abc import Sequence

import msgspec

from .curve import Curve
from .facts import Capacity
from .settings import Settings
from .units import Resource


class Want(msgspec.Struct, frozen=True):
    job: str
    curve: Curve
    workers: int
    resource: Resource = Resource()
    weight: float = 1.0


def share(wants: Sequence[Want], free: Capacity, settings: Settings) -> dict[str, int]:
    """By job: the workers that it may have, at least those it has."""
    sizes = {want.job: want.workers for want in wants}
    left = [free.cpu, float(free.memory), float(free.gpu)]
    heap = [(-value, want.job, want) for want in wants if (value := _value(want, want.workers, settings)) > 0]
    heapq.heapify(heap)
    while heap:
        _, _, want = heapq.heappop(heap)
        need = _need(want.resource)
        if any(each > room for each, room in zip(need, left, strict=True)):
            continue
        left = [room - each for each, room in zip(need, left, strict=True)]
        sizes[want.job] += 1
        if (value := _value(want, sizes[want.job], settings)) > 0:
            heapq.heappush(heap, (-value, want.job, want))
    return sizes


def _need(resource: Resource) -> tuple[float, float, float]:
    return resource.cpu or 0.0, float(resource.memory or 0), float(resource.gpu or 0)


def _value(want: Want, workers: int, settings: Settings) -> float:
    """Of one more worker; 0 if it would bring too little, or more than the curve can be believed for."""
    size = workers + 1
    if size > min(settings.max_workers, want.curve.largest * settings.stretch):
        return 0.0
    if want.curve.marginal(size) < settings.marginal:
        return 0.0
    gain = want.curve.at(size) / want.curve.at(workers) - 1 if workers else 1.0
    weightless = 100 * (want.resource.gpu or 0) + (want.resource.cpu or 0.1)  # a device is worth a hundred cores
    return want.weight * gain / weightless
