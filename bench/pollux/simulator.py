"""The clock of the simulation: every job advances by a tick, then the scheduler decides once.

A job that is submitted between ticks waits for the next one. A scheduler gives every job its nodes, one entry per
replica; whoever's list has changed pauses.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from bench.pollux.job import SimulatedJob

NODES = 16
GPUS = 4
TICK = 60

Allocations = dict[str, list[int]]
"""Job: the node of each of its replicas; those of one node stand together."""


class Scheduler(Protocol):
    """A policy under the rules of the simulation."""

    name: str

    def submit(self, jobs: Sequence[SimulatedJob]) -> None:
        """Prepares the jobs of a run: what is fixed of them, and which agent they have."""

    def decide(self, jobs: Mapping[str, SimulatedJob], allocations: Allocations, now: int) -> Allocations:
        """The next allocations of the jobs that are there."""


class Simulator:
    def __init__(self, jobs: Sequence[SimulatedJob], scheduler: Scheduler) -> None:
        self.jobs = jobs
        self.scheduler = scheduler
        self.now = 0
        self.allocations: Allocations = {}
        self.decision_seconds: list[float] = []

    def run(self, progress: Callable[[int, int], object] = lambda done, jobs: None) -> None:
        """Until every job is done. `progress` hears how many are."""
        while any(job.completion_time is None for job in self.jobs):
            self.tick()
            progress(sum(job.completion_time is not None for job in self.jobs), len(self.jobs))

    def tick(self) -> None:
        for job in self.jobs:
            job.advance(TICK)
        self.now += TICK
        present = {
            job.name: job for job in self.jobs if job.submission.time <= self.now and job.completion_time is None
        }
        if present:
            self._decide(present)

    def _decide(self, present: Mapping[str, SimulatedJob]) -> None:
        before = {name: nodes for name, nodes in self.allocations.items() if name in present}
        begun = time.process_time()
        after = self.scheduler.decide(present, before, self.now)
        self.decision_seconds.append(time.process_time() - begun)
        check_capacity(after)
        for name, job in present.items():
            if after.get(name) != before.get(name):
                job.reallocate(after.get(name, []))
        self.allocations = after


def check_capacity(allocations: Allocations) -> None:
    """A scheduler that gives a GPU twice has no result."""
    used = [0] * NODES
    for nodes in allocations.values():
        for node in nodes:
            used[node] += 1
    if max(used) > GPUS:
        raise AssertionError(f"a node of {GPUS} GPUs was given {max(used)} replicas")


def free_gpus(allocations: Allocations) -> list[int]:
    free = [GPUS] * NODES
    for nodes in allocations.values():
        for node in nodes:
            free[node] -= 1
    return free


def place_on_emptiest(free: list[int], replicas: int) -> list[int]:
    """The node with the most free GPUs first, the first of equals; as the rivals place their jobs."""
    nodes: list[int] = []
    while len(nodes) < replicas:
        node = max(range(len(free)), key=lambda one: free[one])
        count = min(free[node], replicas - len(nodes))
        nodes += [node] * count
        free[node] -= count
    return nodes
