"""Speaks to the master in the background: renews leases, reports progress, and has finished tasks acknowledged.

The loop goes on with its next task while the acknowledgement of the last one, which takes until it is durable, is on
its way. Beats have a connection of their own: the master takes its end for the end of this process.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from ..master.messages import Acknowledged, Beat, Beaten, Done, Fail, GiveBack, Hello
from ..rpc import Nothing
from .link import ClosedError, Locator, MasterLink
from .task import Task

log = logging.getLogger(__name__)

BEAT = 1.0
FAREWELL = 1.0


@dataclass(frozen=True)
class Acknowledgement:
    """The master's durable word on a finished task. `counted`: it is done, by this trainer. `checkpoint`: should a
    parameter server be lost and this or a later one be restored, it stays done; else it is done again."""

    task: Task
    counted: bool
    checkpoint: int


OnDone = Callable[[Acknowledgement], None]


class Courier:
    def __init__(self, locator: Locator, trainer: int, pod: str, on_done: OnDone | None) -> None:
        self._locator, self._hello = locator, Hello(trainer, pod)
        self._beats = MasterLink(locator, Hello(trainer, pod, courier=True))
        self._reports = MasterLink(locator, self._hello)
        self._on_done = on_done
        self._changed = threading.Condition()
        self._held: list[Task] = []  # leased and not yet acknowledged
        self._finished: list[Task] = []
        self._samples = 0.0
        self._loss: float | None = None
        self._closed = False
        self._threads = [
            threading.Thread(target=self._guard, args=(loop,), name=name, daemon=True)
            for name, loop in (("beats", self._beat_loop), ("acknowledgements", self._report_loop))
        ]

    def start(self) -> None:
        self._beat()  # the master knows this trainer before it gives it anything
        for thread in self._threads:
            thread.start()

    def hold(self, task: Task) -> None:
        with self._changed:
            self._held.append(task)

    def finish(self, task: Task) -> None:
        """The task was trained, or failed, or is void: tells the master whatever it must know."""
        with self._changed:
            if task.void and not task.failure:
                self._held.remove(task)
                return
            self._finished.append(task)
            self._changed.notify_all()

    def give_back(self, task: Task) -> None:
        with self._changed:
            if task not in self._held or task in self._finished:
                return
            self._held.remove(task)
        link = MasterLink(self._locator, self._hello)  # the others may be waiting for an answer
        try:
            link.call(GiveBack(task.holding), Nothing)
        finally:
            link.close()

    def add(self, samples: float, loss: float | None) -> None:
        with self._changed:
            self._samples += samples
            self._loss = self._loss if loss is None else loss

    def flush(self, timeout: float) -> bool:
        """Waits until every finished task is acknowledged; False if that took too long."""
        until = time.monotonic() + timeout
        with self._changed:
            while self._finished and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)
            return not self._finished

    def close(self) -> None:
        """Sends what was not reported yet, if that can be done in a moment, and hangs up."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._threads[0].is_alive():
            self._threads[0].join(FAREWELL)
        self._reports.close()
        self._beats.close()

    def _guard(self, loop: Callable[[], None]) -> None:
        with contextlib.suppress(ClosedError):
            loop()

    def _beat_loop(self) -> None:
        while True:
            with self._changed:
                closed = self._changed.wait_for(lambda: self._closed, min(BEAT, self._beats.term / 4))
            self._beat()
            if closed:
                return

    def _beat(self) -> None:
        with self._changed:
            held = list(self._held)
            samples, loss, self._samples, self._loss = self._samples, self._loss, 0.0, None
        message = Beat([task.holding for task in held if not task.void], samples, loss)
        lost = set(self._beats.call(message, Beaten).lost)
        for task in held:
            if task.lease in lost and task not in self._finished:
                log.warning("pass %d chunk %d was taken away", task.pass_index, task.chunk)
                task.void = True

    def _report_loop(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._finished or self._closed)
                if not self._finished:
                    return
                batch = list(self._finished)
            self._report(batch)
            with self._changed:
                self._finished = [task for task in self._finished if task not in batch]
                self._held = [task for task in self._held if task not in batch]
                self._changed.notify_all()

    def _report(self, batch: list[Task]) -> None:
        for task in batch:
            if task.failure:
                self._reports.call(Fail(task.holding, task.failure), Nothing)
        done = [task for task in batch if not task.failure]
        if not done:
            return
        answer = self._reports.call(Done([task.holding for task in done]), Acknowledged)
        for task, checkpoint in zip(done, answer.checkpoints, strict=True):
            self._tell(Acknowledgement(task, checkpoint > 0, checkpoint))

    def _tell(self, acknowledgement: Acknowledgement) -> None:
        if self._on_done is None:
            return
        try:
            self._on_done(acknowledgement)
        except Exception:
            log.exception("on_done failed; the task stays acknowledged")
