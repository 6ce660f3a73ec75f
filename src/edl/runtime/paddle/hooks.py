"""Adapts unmodified Paddle scripts to an elastic job by replacing three methods of Paddle's classes.

- `fleet.init_worker()`: trainer 0 initialises the model once per job; the others wait for that. Paddle itself would
  reset a model in training whenever trainer 0 starts again.
- `fleet.util.get_file_shard(files)`: returns all files, because every trainer gets its files from the job's queue.
- `exe.train_from_dataset(program, dataset)`: one pass, of which this trainer does the files that the queue leases to
  it, one at a time. A file counts when it is trained and all parameter servers are still there.
"""

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from edl.protocol.slots import Slot
from edl.runtime.paddle.servers import (
    POLL,
    Servers,
    check_reachable,
    check_unchanged,
    model_servers,
    record_model_servers,
)
from edl.runtime.service_client import Service
from edl.runtime.trainer_api.task import Task
from edl.runtime.trainer_api.task_reporter import Acknowledgement
from edl.runtime.trainer_api.trainer import Trainer

log = logging.getLogger(__name__)

KEEP_PARAMETERS = "TEST_MODE"  # Paddle's own: trainer 0 takes the parameters as they are


class ModelInitializer:
    """Wraps the part of `init_worker` that pushes the start values."""

    def __init__(
        self, service: Service, servers: Servers, slot: Slot, *, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._service, self._servers, self._slot, self._pause = service, servers, slot, pause

    def init_worker(self, original: Callable[..., None], runtime: Any, scopes: Any = None) -> None:
        initialised = self._initialised_on()
        if self._slot.index != 0:
            while initialised is None:
                self._pause(POLL)
                initialised = self._initialised_on()
        with _variable(KEEP_PARAMETERS, "1" if initialised else "0"):
            original(runtime, scopes)
        if initialised is None:
            record_model_servers(self._service, self._servers, self._slot)
            log.info("the model is in place on %d parameter servers", len(self._servers))

    def _initialised_on(self) -> Servers | None:
        initialised = model_servers(self._service)
        check_unchanged(initialised, self._servers)
        return initialised


class FileQueue:
    """The files of a dataset as tasks. One call trains until the pass is over; a task of the next pass is kept for the
    next call."""

    def __init__(self, servers: Servers, make: Callable[..., Trainer] = Trainer) -> None:
        self._servers, self._make = servers, make
        self._trainer: Trainer | None = None
        self._tasks: Iterator[Task] | None = None
        self._next: Task | None = None
        self._files: list[str] = []

    def train(
        self,
        original: Callable[..., Any],
        executor: Any,
        program: Any = None,
        dataset: Any = None,
        *args: Any,
        **more: Any,
    ) -> Any:
        """Replaces Paddle's method, with the same arguments; without a program it is the default one."""
        if hasattr(dataset, "load_into_memory"):
            raise TypeError("EDL gives a dataset its files one by one: use paddle.distributed.QueueDataset")
        files, answer = list(dataset.filelist), None
        for task in self._pass(files):
            log.info("pass %d: %s", task.pass_index, files[task.chunk])
            dataset.set_filelist([files[task.chunk]])
            answer = original(executor, program, dataset, *args, **more)
            check_reachable(self._servers)
        dataset.set_filelist(files)
        return answer

    def __enter__(self) -> "FileQueue":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Gives an unfinished file back for another trainer."""
        if self._trainer is not None:
            self._trainer.__exit__(kind, error, trace)

    def _pass(self, files: list[str]) -> Iterator[Task]:
        first: Task | None = None
        while (task := self._take(files)) is not None:
            if first is not None and task.pass_index != first.pass_index:
                self._next = task
                return
            first = first or task
            yield task

    def _take(self, files: list[str]) -> Task | None:
        task, self._next = self._next, None
        if task is not None:
            return task
        if self._tasks is None:
            self._files = files
            self._trainer = self._make(on_done=self._log).__enter__()
            self._tasks = self._trainer.tasks(len(files))
        return next(self._tasks, None)

    def _log(self, answer: Acknowledgement) -> None:
        result = "counts" if answer.counted else "was another's"
        log.info("pass %d: %s %s", answer.task.pass_index, self._files[answer.task.chunk], result)


def install(first: ModelInitializer, queue: FileQueue | None) -> None:
    """Without a queue (the job has no master) files are divided by Paddle, among a fixed number of trainers."""
    from paddle.base.executor import Executor
    from paddle.distributed.fleet.base.util_factory import UtilBase
    from paddle.distributed.ps.the_one_ps import TheOnePSRuntime

    _wrap(TheOnePSRuntime, "_init_worker", first.init_worker)
    if queue is not None:
        _wrap(Executor, "train_from_dataset", queue.train)
        UtilBase.get_file_shard = lambda util, files: files


def _wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    original = getattr(owner, name)
    setattr(owner, name, lambda itself, *args, **more: around(original, itself, *args, **more))


@contextlib.contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
