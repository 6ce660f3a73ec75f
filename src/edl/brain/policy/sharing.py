"""Divides free capacity among competing jobs: each further worker goes where it adds most.

A worker's value is the share by which it raises its job's throughput, per core that it takes, times the job's weight.
Workers are placed in order of value until nothing fits. The scheduler alone grants resources; this only keeps Brain
from advising ten jobs to take the same free cores.
"""

import heapq
from collections.abc import Sequence

import msgspec

from edl.brain.policy.settings import Settings
from edl.protocol.job_facts import Capacity
from edl.protocol.resources import Resource
from edl.throughput.curve import Curve


class Demand(msgspec.Struct, frozen=True):
    """A job that competes for capacity: its curve, the workers it has, and the resources of each."""

    job: str
    curve: Curve
    workers: int
    resource: Resource = Resource()
    weight: float = 1.0


def share_capacity(demands: Sequence[Demand], capacity: Capacity, settings: Settings) -> dict[str, int]:
    """By job: the workers that it may have, never fewer than it has."""
    sizes = {demand.job: demand.workers for demand in demands}
    left = [capacity.cpu, float(capacity.memory), float(capacity.gpu)]
    heap = [
        (-value, demand.job, demand) for demand in demands if (value := _value(demand, demand.workers, settings)) > 0
    ]
    heapq.heapify(heap)
    while heap:
        _, _, demand = heapq.heappop(heap)
        need = _request(demand.resource)
        if any(each > free for each, free in zip(need, left, strict=True)):
            continue
        left = [free - each for each, free in zip(need, left, strict=True)]
        sizes[demand.job] += 1
        if (value := _value(demand, sizes[demand.job], settings)) > 0:
            heapq.heappush(heap, (-value, demand.job, demand))
    return sizes


def _request(resource: Resource) -> tuple[float, float, float]:
    return resource.cpu or 0.0, float(resource.memory or 0), float(resource.gpu or 0)


def _value(demand: Demand, workers: int, settings: Settings) -> float:
    """The value of one more worker; 0 if it adds too little, or lies beyond what the curve can predict."""
    size = workers + 1
    if size > min(settings.max_workers, demand.curve.largest * settings.stretch):
        return 0.0
    if demand.curve.marginal(size) < settings.marginal:
        return 0.0
    gain = demand.curve.at(size) / demand.curve.at(workers) - 1 if workers else 1.0
    cost = 100 * (demand.resource.gpu or 0) + (demand.resource.cpu or 0.1)  # a device is worth a hundred cores
    return demand.weight * gain / cost
