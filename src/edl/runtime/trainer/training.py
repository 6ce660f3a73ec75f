"""How the training goes: from the task queue if the workers use it, else from what they report to the job service."""

import time
from collections.abc import Callable

from edl.brain.policy.units import WORKER

from ..master.board import Board
from .meter import Look
from .pods import FRESH, Pods


class BoardTraining:
    """`pods` tells who runs where the queue does not know: workers of other frameworks take no tasks from it."""

    def __init__(self, board: Board, pods: Callable[[], Pods], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._board, self._pods, self._clock = board, pods, clock
        self._trained, self._rate, self._at = 0.0, 0.0, clock()
        self._running, self._changed = 0, self._at  # workers, and since when there are so many
        self._done_before = board.queue.pass_index * board.queue.chunks + board.queue.done.count

    def look(self) -> Look:
        board = self._board
        with board.changed:
            if board.queue.opened:
                report = board.report
                return Look(report.total, frozenset(board.trainers), bool(board.gate), report.reports)
        now = self._clock()
        self._trained, self._at = self._trained + self._rate * (now - self._at), now
        running = self._pods().running.get(WORKER, 0)
        if running != self._running:  # what was reported before is about another number of them
            self._running, self._changed, self._rate = running, now, 0.0
        return Look(self._trained, frozenset(range(running)), self._rate <= 0)

    def reported(self, progress: object) -> None:
        """The job's own word, for jobs whose tasks are not with us; believed while it is about the present workers.

        A worker that runs may still be starting: the word of those that train then says how many they are.
        """
        told = progress if isinstance(progress, dict) else {}
        rate, age = told.get("throughput"), told.get("age", 0.0)
        self.look()
        if not isinstance(rate, int | float) or not isinstance(age, int | float):
            rate, age = 0.0, 0.0
        fresh = age <= FRESH and self._clock() - age >= self._changed
        of_all = told.get("workers", self._running) == self._running
        self._rate = max(0.0, float(rate)) if fresh and of_all else 0.0

    def remaining(self) -> float:
        """Samples still to train, from what a task has taken so far; 0 while nobody can say."""
        with self._board.changed:
            queue, report = self._board.queue, self._board.report
            if not queue.opened:
                return 0.0
            left = (queue.passes - queue.pass_index) * queue.chunks - queue.done.count
            if report.records:
                return left * report.records / queue.chunks
            finished = queue.pass_index * queue.chunks + queue.done.count - self._done_before
            return left * report.total / finished if finished > 0 else 0.0

    def pause(self) -> float:
        return self._board.report.pause or 0.0

    def records(self) -> int:
        return self._board.report.records
