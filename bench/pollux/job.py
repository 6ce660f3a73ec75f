"""A job of the simulation: it advances through its epochs at what the tables say, and its agent chooses the batch.

A job has a *placement*, its replicas by node. Any change of it costs a pause without progress, with its GPUs held.
A job with a fixed batch keeps it; the agent of any other fits a model to what it has measured so far and takes the
batch of the most goodput.
"""

import math
from collections.abc import Callable

from bench.pollux.application import Application
from bench.pollux.tables import Submission

PAUSE = 30  # seconds that a change of the placement costs
ROUNDING = 1e-8

Measure = Callable[["SimulatedJob", tuple[int, ...], float, float, float], None]
ChooseBatch = Callable[["SimulatedJob", tuple[int, ...]], tuple[int, int]]


class SimulatedJob:
    def __init__(
        self, submission: Submission, application: Application, *, batch_size: int | None, pause: int = PAUSE
    ) -> None:
        self.name = submission.name
        self.submission = submission
        self.application = application
        self.batch_size = batch_size
        """Fixed by the user; None: the agent chooses."""
        self.pause = pause
        self.completion_time: int | None = None
        self.now = 0
        self.pause_left = 0
        self.placement: tuple[int, ...] = ()
        self.local_bsz = 0
        self.accumulation = 0
        self.progress = 0.0
        self.epoch = 0
        self.gpu_seconds = 0
        self.restarts: int | None = None
        self.agent: Agent | None = None

    @property
    def replicas(self) -> int:
        return sum(self.placement)

    def reallocate(self, nodes: list[int]) -> None:
        """`nodes`: one entry per replica; those of one node stand together."""
        self.placement = _by_node(nodes)
        if not nodes:
            self.local_bsz = 0
            return
        self._choose_batch()
        self.pause_left = self.pause
        self.restarts = 0 if self.restarts is None else self.restarts + 1

    def advance(self, seconds: int) -> None:
        if self.placement:
            pause = min(self.pause_left, seconds)
            self._pass(pause)
            self.pause_left -= pause
            seconds -= pause
            while seconds > 0 and self.completion_time is None:
                seconds -= self._train(seconds)
        self.now += seconds

    def _pass(self, seconds: int) -> None:
        self.now += seconds
        self.gpu_seconds += seconds * self.replicas

    def _train(self, seconds: int) -> int:
        """To the end of the interval or of the epoch; the seconds that took."""
        application = self.application
        batch_size = self.replicas * self.local_bsz * (self.accumulation + 1)
        step_time, sync_time = application.step_time(self.placement, self.local_bsz)
        grad_sqr, grad_var = application.gradient_statistics(batch_size, self.epoch)
        gain = (grad_var + grad_sqr) / (grad_var / (batch_size / application.init_batch_size) + grad_sqr)
        total_time = step_time + (step_time - sync_time) * self.accumulation
        if self.agent is not None:
            self.agent.measured(self, total_time, grad_sqr, grad_var)
        rate = gain / total_time
        end = application.progress(self.epoch + 1)
        if self.progress + rate * seconds < end:
            self.progress += rate * seconds
            taken = seconds
        else:
            taken = round(float((end - self.progress) / rate))
            self.epoch += 1
            self.progress = end
            if self.epoch == application.epochs:
                self.completion_time = self.now + taken
        self._pass(taken)
        self._choose_batch()
        return taken

    def _choose_batch(self) -> None:
        application, replicas = self.application, self.replicas
        batch_size = self.batch_size
        if batch_size is None and self.agent is not None:
            chosen = self.agent.best_batch(self)
            if chosen is None:
                batch_size = max(application.init_batch_size, application.min_local_bsz * replicas)
            else:
                self.local_bsz, self.accumulation = chosen
        if batch_size is not None:
            self.local_bsz, self.accumulation = split_batch(application, batch_size, replicas)
        most = int(application.max_batch_size / (replicas * (self.accumulation + 1)))
        self.local_bsz = min(self.local_bsz, most)


class Agent:
    """What runs beside a job whose batch is free: it measures, and says which batch is best."""

    def measured(self, job: SimulatedJob, seconds: float, grad_sqr: float, grad_var: float) -> None:
        """A step took so long."""
        raise NotImplementedError

    def best_batch(self, job: SimulatedJob) -> tuple[int, int] | None:
        """The local batch and the steps of accumulation; None before anything was measured."""
        raise NotImplementedError


def split_batch(application: Application, batch_size: int, replicas: int) -> tuple[int, int]:
    """The local batch of a replica, and how many further steps it accumulates where that is too much for one."""
    share = math.ceil(batch_size / replicas - ROUNDING)
    accumulation = math.ceil(share / application.max_local_bsz - ROUNDING) - 1
    if replicas == 1 and batch_size > application.init_batch_size:
        accumulation = max(1, accumulation)
    return math.ceil(share / (accumulation + 1) - ROUNDING), accumulation


def _by_node(nodes: list[int]) -> tuple[int, ...]:
    found: list[int] = []
    for at, node in enumerate(nodes):
        if at and nodes[at - 1] == node:
            found[-1] += 1
        else:
            found.append(1)
    return tuple(found)
