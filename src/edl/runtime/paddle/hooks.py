"""The three places where unmodified Paddle code meets an elastic job, as replacements of methods of Paddle's classes.

- `fleet.init_worker()`: trainer 0 gives the model its first values, once in the life of a job; others wait for that.
  Paddle itself would reset a model in training whenever trainer 0 starts again.
- `fleet.util.get_file_shard(files)`: all files, for whoever comes gets its files from the job's queue.
- `exe.train_from_dataset(program, dataset)`: one pass, of which this trainer does what the queue gives to it, a file at
  a time. A file counts when it is trained and all parameter servers are still there.
"""

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from ..service import Service, Slot
from ..training.courier import Acknowledgement
from ..training.task import Task
from ..training.trainer import Trainer
from .servers import POLL, Servers, check_kept, check_reachable, model_servers, note_model

log = logging.getLogger(__name__)

REJOIN = "TEST_MODE"  # Paddle's own: trainer 0 takes the parameters as they are


class FirstValues:
    """Wraps the part of `init_worker` that pushes them."""

    def __init__(
        self, service: Service, servers: Servers, slot: Slot, *, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._service, self._servers, self._slot, self._pause = service, servers, slot, pause

    def init_worker(self, original: Callable[..., None], runtime: Any, scopes: Any = None) -> None:
        begun = self._begun()
        if self._slot.index != 0:
            while begun is None:
                self._pause(POLL)
                begun = self._begun()
        with _variable(REJOIN, "1" if begun else "0"):
            original(runtime, scopes)
        if begun is None:
            note_model(self._service, self._servers, self._slot)
            log.info("the model is in place on %d parameter servers", len(self._servers))

    def _begun(self) -> Servers | None:
        begun = model_servers(self._service)
        check_kept(begun, self._servers)
        return begun


class FileQueue:
    """The files of a dataset as tasks. One call trains until the pass is over; a task of the next pass waits for it."""

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
        """As Paddle's own, by position or by name; without a program it is the default one."""
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
        """A file that was not finished goes to somebody else."""
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
            self._trainer = self._make(on_done=self._told).__enter__()
            self._tasks = self._trainer.tasks(len(files))
        return next(self._tasks, None)

    def _told(self, news: Acknowledgement) -> None:
        verdict = "counts" if news.counted else "was another's"
        log.info("pass %d: %s %s", news.task.pass_index, self._files[news.task.chunk], verdict)


def install(first: FirstValues, queue: FileQueue | None) -> None:
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
