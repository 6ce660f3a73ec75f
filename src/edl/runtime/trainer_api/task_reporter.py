"""Reports to the master in the background: renews leases, sends progress, and gets finished tasks acknowledged.

The training loop goes on with its next task while the last one becomes durable. Heartbeats have a connection of their
own: the master takes its end for the end of this process.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from edl.runtime.rpc import Nothing
from edl.runtime.tasks.messages import Acknowledged, Done, Fail, GiveBack, Heartbeat, HeartbeatReply, Hello
from edl.runtime.trainer_api.master_connection import ClosedError, MasterConnection, MasterLocator
from edl.runtime.trainer_api.task import Task

log = logging.getLogger(__name__)

HEARTBEAT_INTERVAL = 1.0
CLOSE_TIMEOUT = 1.0


@dataclass(frozen=True)
class Acknowledgement:
    """The master's durable answer about a finished task. `counted`: it is done, by this trainer. `checkpoint`: it stays
    done if this checkpoint or a later one is restored after the loss of a parameter server; else it is done again."""

    task: Task
    counted: bool
    checkpoint: int


OnDone = Callable[[Acknowledgement], None]


class TaskReporter:
    def __init__(self, locator: MasterLocator, trainer: int, pod: str, on_done: OnDone | None) -> None:
        self._locator, self._hello = locator, Hello(trainer, pod)
        self._heartbeats = MasterConnection(locator, Hello(trainer, pod, heartbeat=True))
        self._reports = MasterConnection(locator, self._hello)
        self._on_done = on_done
        self._changed = threading.Condition()
        self._held: list[Task] = []  # leased and not yet acknowledged
        self._finished: list[Task] = []
        self._samples = 0.0
        self._loss: float | None = None
        self._closed = False
        self._threads = [
            threading.Thread(target=self._guard, args=(loop,), name=name, daemon=True)
            for name, loop in (("heartbeats", self._heartbeat_loop), ("acknowledgements", self._report_loop))
        ]

    def start(self) -> None:
        self._heartbeat()  # the master must know this trainer before it leases a task to it
        for thread in self._threads:
            thread.start()

    def hold(self, task: Task) -> None:
        with self._changed:
            self._held.append(task)

    def finish(self, task: Task) -> None:
        """The task was trained, failed or became void: reports to the master what it must know."""
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
        master = MasterConnection(self._locator, self._hello)  # the other connections may be waiting for an answer
        try:
            master.call(GiveBack(task.leased_task), Nothing)
        finally:
            master.close()

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
        """Sends what is not reported yet, if that takes only a moment, and disconnects."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._threads[0].is_alive():
            self._threads[0].join(CLOSE_TIMEOUT)
        self._reports.close()
        self._heartbeats.close()

    def _guard(self, loop: Callable[[], None]) -> None:
        with contextlib.suppress(ClosedError):
            loop()

    def _heartbeat_loop(self) -> None:
        while True:
            with self._changed:
                closed = self._changed.wait_for(
                    lambda: self._closed, min(HEARTBEAT_INTERVAL, self._heartbeats.term / 4)
                )
            self._heartbeat()
            if closed:
                return

    def _heartbeat(self) -> None:
        with self._changed:
            held = list(self._held)
            samples, loss, self._samples, self._loss = self._samples, self._loss, 0.0, None
        message = Heartbeat([task.leased_task for task in held if not task.void], samples, loss)
        lost = set(self._heartbeats.call(message, HeartbeatReply).lost)
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
                self._reports.call(Fail(task.leased_task, task.failure), Nothing)
        done = [task for task in batch if not task.failure]
        if not done:
            return
        answer = self._reports.call(Done([task.leased_task for task in done]), Acknowledged)
        for task, checkpoint in zip(done, answer.checkpoints, strict=True):
            self._notify(Acknowledgement(task, checkpoint > 0, checkpoint))

    def _notify(self, acknowledgement: Acknowledgement) -> None:
        if self._on_done is None:
            return
        try:
            self._on_done(acknowledgement)
        except Exception:
            log.exception("on_done failed; the task stays acknowledged")
