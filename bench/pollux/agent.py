"""The agent beside a job whose batch is free: it fits EDL's throughput model to the steps that the job has measured."""

import math
from collections.abc import Sequence

import numpy as np
from bench.pollux.job import Agent, SimulatedJob
from bench.pollux.simulator import GPUS, NODES

from edl.throughput.batch import BatchRange, BestBatch, best_batches
from edl.throughput.efficiency import noise_scale
from edl.throughput.model import JobModel, job_model, prior_rate
from edl.throughput.step_time import MeasuredStep, StepTime, fit_step_time

SIZES = (1, 2, *range(GPUS, GPUS * NODES + 1, GPUS))
"""Halves of a node, and whole ones: they leave no odd holes."""
NODE = SIZES[:3]

UNMEASURED = JobModel(NODE, tuple(map(prior_rate, NODE)), explored=1)
"""Of a job that will report and has not yet: it may have a node to begin with."""


class ModelAgent(Agent):
    def __init__(self, job: SimulatedJob) -> None:
        application = job.application
        self.tuned = application.init_batch_size
        self.total = application.progress(application.epochs)
        self.allowed = BatchRange(
            self.tuned, application.max_batch_size, application.min_local_bsz, application.max_local_bsz
        )
        self.steps: dict[tuple[int, int, int, int], MeasuredStep] = {}
        self.step_time: StepTime | None = None
        self.noise = math.inf
        self._rates: list[float] | None = None
        self._scattered: list[float] = []

    @property
    def explored(self) -> int:
        """The most replicas that were measured."""
        return max((step.workers for step in self.steps.values()), default=0)

    def measured(self, job: SimulatedJob, seconds: float, grad_sqr: float, grad_var: float) -> None:
        key = job.replicas, len(job.placement), job.local_bsz, job.accumulation
        if key not in self.steps:
            workers, nodes, batch, accumulation = key
            self.steps[key] = MeasuredStep(workers, nodes, batch, seconds, accumulation)
            self.step_time = fit_step_time(self.steps.values())
            self._rates = None
        noise = noise_scale(grad_sqr, grad_var, self.tuned)
        if noise != self.noise:
            self.noise, self._rates = noise, None

    def best_batch(self, job: SimulatedJob) -> tuple[int, int] | None:
        best = self._best([job.replicas], [len(job.placement)])
        return None if best is None else (int(best.batches[0]), int(best.accumulations[0]))

    def _best(self, sizes: Sequence[int], nodes: Sequence[int]) -> BestBatch | None:
        if self.step_time is None:
            return None
        return best_batches(self.step_time, self.noise, self.allowed, np.array(sizes), np.array(nodes))

    def model(self, progress: float | None) -> JobModel | None:
        """Rates at whole nodes. `progress`: what is done, if the scheduler may know what is left."""
        if self._rates is None:
            best = self._best(SIZES, [-(-size // GPUS) for size in SIZES])
            if best is None:
                return UNMEASURED
            self._rates = [float(rate) / self.tuned for rate in best.rates]
            apart = self._best(SIZES, [min(size, 1 + -(-size // GPUS)) for size in SIZES])
            self._scattered = [float(rate) / self.tuned for rate in apart.rates] if apart is not None else []
        remaining = None if progress is None else self.total - progress
        return job_model(SIZES, self._rates, scattered=self._scattered, explored=self.explored, remaining=remaining)
