"""A trainer process: takes tasks until there are none, and leaves without losing any.

On SIGTERM it finishes the task under way, or gives it back when that takes longer than the grace, and exits with 143,
so that it is never taken for a trainer that has finished. When all passes are done the loop simply ends.
"""

import logging
import os
import random
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from queue import SimpleQueue
from types import FrameType, TracebackType

import numpy as np
from msgspec.structs import replace
from numpy.typing import ArrayLike

from edl.runtime import usage
from edl.runtime.environment import Environment, SettingError
from edl.runtime.logs.own_output import copy_output, exit_now
from edl.runtime.parameters.model import Dense, Model, Optimizer, Rows
from edl.runtime.service_client import ServiceClient
from edl.runtime.tasks.messages import Assignment, GetTask, Hello
from edl.runtime.trainer_api.departure import wait_out_grace
from edl.runtime.trainer_api.fixed_share import FixedShare, Share, has_master
from edl.runtime.trainer_api.local_job import LocalJob
from edl.runtime.trainer_api.master_connection import JobFailedError, MasterConnection, MasterLocator
from edl.runtime.trainer_api.parameters import Parameters
from edl.runtime.trainer_api.shards import Shard, Sharding, Shuffle
from edl.runtime.trainer_api.task import Task
from edl.runtime.trainer_api.task_reporter import OnDone, TaskReporter

log = logging.getLogger(__name__)

LEFT = 143
GRACE = 20.0
WAIT = 2.0


@dataclass(frozen=True)
class Sparse:
    """A table of rows of `width` numbers. A row exists from the first time that it is asked for, and starts uniform in
    -scale..scale, from its number and the seed alone."""

    width: int
    scale: float = 0.01
    seed: int = 0


class Trainer:
    """Everything comes from the environment of the pod; outside of one, the script trains alone, with a queue and
    parameters in its own process. `on_done` is called, in another thread, with the acknowledgement of every finished
    task."""

    def __init__(
        self, env: Mapping[str, str] | None = None, *, on_done: OnDone | None = None, grace: float = GRACE
    ) -> None:
        self._env = Environment.read(os.environ if env is None else env)
        if env is None:
            copy_output(self._env, leads=self._env.index == 0)
        self._service: ServiceClient | None = None
        self._local: LocalJob | FixedShare | None = None
        self._share: Share | None = None
        if self._env.service_url:
            self._env.require("namespace", "job", "token")
            self._service = ServiceClient.of(self._env)
            if not has_master(self._env, self._service):
                self._local = fixed = FixedShare(self._env, self._service)
                self._env, self._share = fixed.env, fixed.share
        elif self._env.master:
            self._env.require("token")
        else:
            self._local = local = LocalJob(self._env)
            self._env = local.env
        self._grace = grace
        self.token = self._env.token
        self.number = random.SystemRandom().getrandbits(62) | 1
        self.current: Task | None = None
        locator = MasterLocator(self._env, self._service)
        self.master = MasterConnection(locator, Hello(self.number, self._env.pod))
        self._reporter = TaskReporter(locator, self.number, self._env.pod, on_done)
        self._parameters: Parameters | None = None
        self._leaving: float | None = None  # the time of SIGTERM
        self._terminated: SimpleQueue[None] = SimpleQueue()  # not an Event: see `edl.runtime.signals`
        self._closed = threading.Event()
        self._handlers: dict[int, object] = {}

    def __enter__(self) -> "Trainer":
        if threading.current_thread() is threading.main_thread():
            threading.Thread(target=self._end_of_grace, name="grace", daemon=True).start()
            self._handlers = {signal.SIGTERM: signal.signal(signal.SIGTERM, self._on_sigterm)}
        if self._service is not None:
            usage.start_reporting(self._service, self._env.pod, self._env.usage_seconds, over=self._closed)
        try:
            self._reporter.start()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self.current = self.current, None
        if task is not None:
            self._abandon(task, error)
        self._reporter.flush(self._grace)
        self._close()

    def parameters(
        self,
        dense: Mapping[str, ArrayLike] | None = None,
        sparse: Mapping[str, int | Sparse] | None = None,
        *,
        optimizer: str | Optimizer = "sgd",
        learning_rate: float = 0.01,
        sync: bool = False,
    ) -> Parameters:
        """Declares the model: dense tensors by name with start values, sparse tables by name with their width.

        `optimizer` is sgd, momentum or adam, or an Optimizer with all its settings. With `sync`, a step is the mean of
        what all working trainers push, applied once; without, every push is applied as it comes.
        Every trainer declares the same; the start values of one of them are used. Returns when they are in place.
        """
        if self._share is not None:
            raise SettingError("this job has no master, which parameter servers need; give its spec a `master` role")
        start = {name: np.asarray(value, np.float32) for name, value in (dense or {}).items()}
        tables = {name: Sparse(of) if isinstance(of, int) else of for name, of in (sparse or {}).items()}
        model = Model(
            tuple(Dense(name, value.shape) for name, value in start.items()),
            tuple(Rows(name, table.width, table.scale, table.seed) for name, table in tables.items()),
            Optimizer.named(optimizer, learning_rate) if isinstance(optimizer, str) else optimizer,
            sync,
        )
        self._parameters = Parameters(self, model, start)
        self._parameters.prepare()
        return self._parameters

    def tasks(self, chunks: int, passes: int | None = None) -> Iterator[Task]:
        """The tasks of this trainer, one after another, until all passes of the job are done.

        When the loop asks for the next one, the last one is reported as done. `chunks` is into how many parts the
        script divides its data, the same in every trainer; the passes are the job's unless given.
        """
        yield from self._tasks(GetTask(chunks, passes or self._env.passes))

    def shards(
        self, records: int, size: int, epochs: int | None = None, *, shuffle: Shuffle | None = "records", seed: int = 0
    ) -> Iterator[Shard]:
        """The shards of this trainer, one after another, until all epochs are done: each record is in exactly one shard
        of an epoch, and each shard is done once, whoever comes and goes.

        `size` records are one shard. `shuffle` mixes all records, or only the order of the shards ("shards", for data
        that is read in order), by `seed` and epoch alone: every run sees the same. None: as they are.
        """
        sharding = Sharding(records, size, shuffle, seed)
        for task in self._tasks(GetTask(sharding.shards, epochs or self._env.passes, records=records)):
            yield Shard(task, sharding)

    def _tasks(self, get: GetTask) -> Iterator[Task]:
        if self.current is not None:  # an earlier loop ended in the middle of it
            self._abandon(self.current, None)
            self.current = None
        chunks = get.chunks
        if self._share is not None and chunks > 0:
            get = replace(get, chunks=self._share.size(chunks))
            if not get.chunks:  # there are more trainers than chunks
                return
        while (task := self._next(get, chunks)) is not None:
            self.current = task
            self._reporter.hold(task)
            if self._parameters:
                self._parameters.join()
            yield task
            self.current = None
            self._reporter.finish(task)
        self._reporter.flush(self._grace)

    def report(self, *, loss: float | None = None, samples: float = 0.0) -> None:
        """Reports progress, shown by `edl run`, `edl describe` and in the operator's metrics."""
        self._reporter.add(samples, loss)

    def check_leaving(self) -> None:
        """Raises SystemExit(143) if this trainer is being terminated."""
        if self._leaving is not None:
            raise SystemExit(LEFT)

    def _next(self, get: GetTask, chunks: int) -> Task | None:
        answer = self.master.call(get, Assignment) if self._leaving is None else Assignment("leave")
        if answer.kind == "wait" and self._parameters:
            self._parameters.leave()  # the others need not wait for an idle trainer
        logged = ""
        while answer.kind == "wait":
            if answer.reason != logged:
                logged = answer.reason
                log.info("waiting: %s", logged)
            self._leave_if_asked()
            answer = self.master.call(replace(get, wait=WAIT), Assignment)
        if answer.kind == "task":
            leased = answer.task
            assert leased is not None
            share = self._share or Share()
            return Task(
                leased.pass_index,
                share.chunk(leased.chunk),
                chunks,
                answer.passes,
                leased.era,
                leased.lease,
                position=leased.chunk,
            )
        if answer.kind == "leave":
            self._leaving = self._leaving or time.monotonic()
            self._leave_if_asked()
        if answer.kind == "failed":
            raise JobFailedError(answer.reason)
        return None

    def _leave_if_asked(self) -> None:
        if self._leaving is None:
            return
        left = max(0.0, self._leaving + self._grace - time.monotonic())
        if not self._reporter.flush(left):
            log.warning("some finished tasks were not acknowledged in time; others will do them again")
        raise SystemExit(LEFT)

    def _on_sigterm(self, number: int, frame: FrameType | None) -> None:
        """Runs between any two steps of the main thread, so it only records the signal."""
        self._leaving = self._leaving or time.monotonic()
        self._terminated.put(None)

    def _end_of_grace(self) -> None:
        """Gives the task back and exits when the grace is over, or the whole job, and the loop is still busy."""
        self._terminated.get()
        ended = wait_out_grace(self._service, self._closed, self._grace)
        if ended == "closed":
            return
        if ended == "job over":
            log.warning("leaving at once: the job is over, and nobody is there to take the task back")
            exit_now(LEFT)
        task = self.current
        if task is not None:
            task.void = True
            self._reporter.give_back(task)
        log.warning("leaving in the middle of a task; it was given back")
        exit_now(LEFT)

    def _abandon(self, task: Task, error: BaseException | None) -> None:
        """Reports a task in the middle of which the loop was left: as failed after an exception, else as given back."""
        if isinstance(error, Exception) and not isinstance(error, JobFailedError):
            task.fail(f"{type(error).__name__}: {error}")
            self._reporter.finish(task)
        else:
            self._reporter.give_back(task)

    def _close(self) -> None:
        self._closed.set()
        self._terminated.put(None)
        if self._parameters:
            self._parameters.close()
        self._reporter.close()
        self.master.close()
        if self._local:
            self._local.close()
        if self._service:
            self._service.close()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal.signal returned
