"""Tiresias (NSDI'19): two queues by attained GPU time, first come first served in each; fixed sizes, preemptive."""

from collections.abc import Mapping, Sequence

from bench.pollux.job import SimulatedJob
from bench.pollux.simulator import GPUS, NODES, Allocations, free_gpus, place_on_emptiest

THRESHOLD = 16 * 3600  # GPU-seconds after which a job goes to the second queue


class Tiresias:
    name = "tiresias"

    def __init__(self) -> None:
        self.queues: tuple[list[str], list[str]] = ([], [])
        self.ran: dict[str, int] = {}
        """Job: seconds that it has run, as of the last decision."""
        self.running: set[str] = set()
        self.last = 0

    def submit(self, jobs: Sequence[SimulatedJob]) -> None:
        for job in jobs:
            job.batch_size = job.submission.batch_size

    def decide(self, jobs: Mapping[str, SimulatedJob], allocations: Allocations, now: int) -> Allocations:
        self._update_queues(jobs, now)
        self._choose_running(jobs)
        kept = {name: nodes for name, nodes in allocations.items() if name in self.running}
        free = free_gpus(kept)
        for name in (*self.queues[0], *self.queues[1]):
            if name in self.running and name not in kept:
                kept[name] = place_on_emptiest(free, jobs[name].submission.num_replicas)
        return kept

    def _update_queues(self, jobs: Mapping[str, SimulatedJob], now: int) -> None:
        for queue in self.queues:
            queue[:] = [name for name in queue if name in jobs]
        first, second = self.queues
        for name, job in jobs.items():
            if name not in self.ran:
                self.ran[name] = 0
                first.append(name)
            elif name in self.running:
                self.ran[name] += now - self.last
                if name in first and self.ran[name] * job.submission.num_replicas >= THRESHOLD:
                    first.remove(name)
                    second.append(name)
        self.last = now

    def _choose_running(self, jobs: Mapping[str, SimulatedJob]) -> None:
        """In the order of the queues, whoever still fits: sizes count, nodes do not."""
        left = GPUS * NODES
        self.running = set()
        for name in (*self.queues[0], *self.queues[1]):
            wanted = jobs[name].submission.num_replicas
            if wanted <= left:
                left -= wanted
                self.running.add(name)
