"""Writes checkpoints to disk in a thread: always the newest, not more often than it is asked to, and never in the way.

A disk that is full or not there is said once, and tried again with the next checkpoint; training goes on.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """`write` reads from memory that is pinned for it until `release`."""

    step: int
    write: Callable[[], None]
    release: Callable[[], None]


class Writer:
    def __init__(self, *, every: float, where: str) -> None:
        self._every, self._where = every, where
        self._changed = threading.Condition()
        self._next: Job | None = None
        self._busy = self._hurry = self._failing = False
        self._last = -every
        threading.Thread(target=self._run, name="edl-checkpoints", daemon=True).start()

    def offer(self, job: Job) -> None:
        """In place of one that was not begun with."""
        with self._changed:
            superseded, self._next = self._next, job
            self._changed.notify_all()
        if superseded is not None:
            superseded.release()

    def flush(self, timeout: float | None = None) -> bool:
        """Whether all that was offered is on disk, or was tried to be."""
        with self._changed:
            self._hurry = True
            self._changed.notify_all()
            done = self._changed.wait_for(lambda: self._next is None and not self._busy, timeout)
            self._hurry = False
            return done

    def _run(self) -> None:
        while True:
            with self._changed:
                job = self._wait()
                self._next, self._busy = None, True
            try:
                self._write(job)
            finally:
                job.release()
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()

    def _wait(self) -> Job:
        while True:
            left = 0.0 if self._hurry else self._last + self._every - time.monotonic()
            if self._next is not None and left <= 0:
                return self._next
            self._changed.wait(None if self._next is None else left)

    def _write(self, job: Job) -> None:
        self._last = time.monotonic()
        try:
            job.write()
        except Exception as error:  # whatever torch, pickle or the disk raises: training goes on
            if not self._failing:
                log.warning("checkpoints are not written to %s: %s (said once)", self._where, error)
            self._failing = True
        else:
            if self._failing:
                log.warning("checkpoints are written to %s again, from step %d on", self._where, job.step)
            self._failing = False
