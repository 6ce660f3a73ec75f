"""A trainer process: takes tasks until there are none, and leaves so that nothing is lost.

Asked to go (SIGTERM), it finishes the task under way, or returns it when that takes longer than the grace, and exits
with 143: a leaver is never taken for one that has finished. When all passes are done the loop simply ends.
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

from .. import usage
from ..environment import Environment
from ..master.messages import Assignment, Get, Hello
from ..model import Dense, Model, Optimizer, Rows
from ..service import ServiceClient
from .courier import Courier, OnDone
from .link import Locator, MasterLink
from .local import LocalJob
from .parameters import Parameters
from .shards import Shard, Sharding, Shuffle
from .task import Task

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


class JobFailedError(Exception):
    """The job cannot go on; the message says why."""


class Trainer:
    """Everything comes from the environment of the pod; outside of one, the script trains alone, with a queue and
    parameters in its own process. `on_done` is called, in another thread, with the acknowledgement of every finished
    task."""

    def __init__(
        self, env: Mapping[str, str] | None = None, *, on_done: OnDone | None = None, grace: float = GRACE
    ) -> None:
        self._env = Environment.read(os.environ if env is None else env)
        self._service: ServiceClient | None = None
        self._local: LocalJob | None = None
        if self._env.service_url:
            self._env.require("namespace", "job", "token")
            self._service = ServiceClient(
                self._env.service_url, self._env.namespace, self._env.job, self._env.token, ca=self._env.service_ca
            )
        elif self._env.master:
            self._env.require("token")
        else:
            self._local = LocalJob(self._env)
            self._env = self._local.env
        self._grace = grace
        self.token = self._env.token
        self.number = random.SystemRandom().getrandbits(62) | 1
        self.current: Task | None = None
        locator = Locator(self._env, self._service)
        self.link = MasterLink(locator, Hello(self.number, self._env.pod))
        self._courier = Courier(locator, self.number, self._env.pod, on_done)
        self._parameters: Parameters | None = None
        self._leaving: float | None = None  # since when
        self._asked: SimpleQueue[None] = SimpleQueue()  # and no event: see `edl.runtime.signals`
        self._closed = threading.Event()
        self._handlers: dict[int, object] = {}

    def __enter__(self) -> "Trainer":
        if threading.current_thread() is threading.main_thread():
            threading.Thread(target=self._end_of_grace, name="grace", daemon=True).start()
            self._handlers = {signal.SIGTERM: signal.signal(signal.SIGTERM, self._asked_to_go)}
        if self._service is not None:
            usage.tell_always(self._service, self._env.pod, self._env.usage_seconds, over=self._closed)
        try:
            self._courier.start()
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
        self._courier.flush(self._grace)
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
        yield from self._tasks(Get(chunks, passes or self._env.passes))

    def shards(
        self, records: int, size: int, epochs: int | None = None, *, shuffle: Shuffle | None = "records", seed: int = 0
    ) -> Iterator[Shard]:
        """The shards of this trainer, one after another, until all epochs are done: each record is in exactly one shard
        of an epoch, and each shard is done once, whoever comes and goes.

        `size` records are one shard. `shuffle` mixes all records, or only the order of the shards ("shards", for data
        that is read in order), by `seed` and epoch alone: every run sees the same. None: as they are.
        """
        sharding = Sharding(records, size, shuffle, seed)
        for task in self._tasks(Get(sharding.shards, epochs or self._env.passes, records=records)):
            yield Shard(task, sharding)

    def _tasks(self, get: Get) -> Iterator[Task]:
        if self.current is not None:  # an earlier loop was left in the middle of it
            self._abandon(self.current, None)
            self.current = None
        while (task := self._next(get)) is not None:
            self.current = task
            self._courier.hold(task)
            if self._parameters:
                self._parameters.join()
            yield task
            self.current = None
            self._courier.finish(task)
        self._courier.flush(self._grace)

    def report(self, *, loss: float | None = None, samples: float = 0.0) -> None:
        """How it goes: shown by `edl run`, `edl describe` and in the operator's metrics."""
        self._courier.add(samples, loss)

    def check_leaving(self) -> None:
        """Raises SystemExit(143) if this trainer was asked to go."""
        if self._leaving is not None:
            raise SystemExit(LEFT)

    def _next(self, get: Get) -> Task | None:
        answer = self.link.call(get, Assignment) if self._leaving is None else Assignment("leave")
        if answer.what == "wait" and self._parameters:
            self._parameters.leave()  # others need not wait for one that has nothing to do
        told = ""
        while answer.what == "wait":
            if answer.reason != told:
                told = answer.reason
                log.info("waiting: %s", told)
            self._leave_if_asked()
            answer = self.link.call(replace(get, wait=WAIT), Assignment)
        if answer.what == "task":
            held = answer.holding
            assert held is not None
            return Task(held.pass_index, held.chunk, get.chunks, answer.passes, held.era, held.lease)
        if answer.what == "leave":
            self._leaving = self._leaving or time.monotonic()
            self._leave_if_asked()
        if answer.what == "failed":
            raise JobFailedError(answer.reason)
        return None

    def _leave_if_asked(self) -> None:
        if self._leaving is None:
            return
        left = max(0.0, self._leaving + self._grace - time.monotonic())
        if not self._courier.flush(left):
            log.warning("some finished tasks were not acknowledged in time; others will do them again")
        raise SystemExit(LEFT)

    def _asked_to_go(self, number: int, frame: FrameType | None) -> None:
        """Runs between any two steps of the main thread, so it only takes note."""
        self._leaving = self._leaving or time.monotonic()
        self._asked.put(None)

    def _end_of_grace(self) -> None:
        """When the grace is over and the loop is still busy, the task goes to somebody else."""
        self._asked.get()
        if self._closed.wait(self._grace):
            return
        task = self.current
        if task is not None:
            task.void = True
            self._courier.give_back(task)
        log.warning("leaving in the middle of a task; it was given back")
        os._exit(LEFT)

    def _abandon(self, task: Task, error: BaseException | None) -> None:
        """The loop was left in the middle of a task: by a failure of its body, or of its own will."""
        if isinstance(error, Exception):
            task.fail(f"{type(error).__name__}: {error}")
            self._courier.finish(task)
        else:
            self._courier.give_back(task)

    def _close(self) -> None:
        self._closed.set()
        self._asked.put(None)
        if self._parameters:
            self._parameters.close()
        self._courier.close()
        self.link.close()
        if self._service:
            self._service.close()
        if self._local:
            self._local.close()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal.signal returned
