"""Optimus (EuroSys'18) with an oracle: GPU by GPU to the job whose remaining time falls most.

It knows the true step time of every size and the exact steps that are left; the batch of a job is fixed.
"""

from collections.abc import Mapping, Sequence

from bench.pollux.job import SimulatedJob, split_batch
from bench.pollux.simulator import GPUS, NODES, Allocations, free_gpus, place_on_emptiest


class Optimus:
    name = "optimus"

    def submit(self, jobs: Sequence[SimulatedJob]) -> None:
        for job in jobs:
            job.batch_size = job.submission.batch_size

    def decide(self, jobs: Mapping[str, SimulatedJob], allocations: Allocations, now: int) -> Allocations:
        sizes = self._sizes(jobs)
        kept = {name: nodes for name, nodes in allocations.items() if len(nodes) == sizes[name]}
        free = free_gpus(kept)
        for name in sorted(jobs, key=lambda name: sizes[name]):
            if sizes[name] and name not in kept:
                kept[name] = place_on_emptiest(free, sizes[name])
        return kept

    def _sizes(self, jobs: Mapping[str, SimulatedJob]) -> dict[str, int]:
        left = GPUS * NODES
        sizes: dict[str, int] = {}
        gains: dict[str, float] = {}
        for name, job in jobs.items():
            sizes[name] = min(1, left)
            left -= sizes[name]
            gains[name] = _gain(job, 1) if sizes[name] and left else 0.0
        while left and max(gains.values()) > 0:
            name = max(gains, key=lambda name: gains[name])
            sizes[name] += 1
            gains[name] = _gain(jobs[name], sizes[name])
            left -= 1
        return sizes


def _gain(job: SimulatedJob, size: int) -> float:
    """By how many seconds one more replica shortens what is left of it."""
    if size >= _most(job):
        return 0.0
    return (_step_time(job, size) - _step_time(job, size + 1)) * _steps_left(job)


def _most(job: SimulatedJob) -> int:
    application = job.application
    return 1 if application.name == "ncf" else job.submission.batch_size // application.min_local_bsz


def _steps_left(job: SimulatedJob) -> float:
    application, batch_size = job.application, job.submission.batch_size
    last = application.epochs - 1
    if last <= job.epoch:
        return 1.0
    return application.iterations(batch_size, last) - application.iterations(batch_size, job.epoch)


def _step_time(job: SimulatedJob, size: int) -> float:
    """On as few nodes as it takes. A single replica always accumulates, as the published one has it."""
    application, batch_size = job.application, job.submission.batch_size
    placement = (GPUS,) * (size // GPUS) + ((size % GPUS,) if size % GPUS else ())
    local_bsz, accumulation = split_batch(application, batch_size, size)
    if size == 1 and accumulation == 0:
        local_bsz, accumulation = -(-local_bsz // 2), 1
    local_bsz = min(local_bsz, int(application.max_batch_size / (size * (accumulation + 1))))
    step_time, sync_time = application.step_time(placement, local_bsz)
    return step_time + (step_time - sync_time) * accumulation
