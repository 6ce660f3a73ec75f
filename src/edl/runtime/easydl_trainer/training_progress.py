"""Progress of the training: from the task queue if the workers use it, else from their reports to the job service."""

import time
from collections.abc import Callable

from edl.protocol.progress import LastProgress
from edl.protocol.resources import WORKER
from edl.runtime.easydl_trainer.pod_report import FRESH, PodSummary
from edl.runtime.easydl_trainer.throughput import TrainingSnapshot
from edl.runtime.tasks.shared_state import SharedState


class TrainingProgress:
    """`pods` says how many run where the queue does not know: workers of other frameworks take no tasks from it."""

    def __init__(
        self, shared: SharedState, pods: Callable[[], PodSummary], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._shared, self._pods, self._clock = shared, pods, clock
        self._trained, self._rate, self._at = 0.0, 0.0, clock()
        self._running, self._changed = 0, self._at  # workers, and since when there are so many
        self._done_before = shared.queue.pass_index * shared.queue.chunks + shared.queue.done.count

    def snapshot(self) -> TrainingSnapshot:
        shared = self._shared
        with shared.changed:
            if shared.queue.opened:
                metrics = shared.metrics
                return TrainingSnapshot(
                    metrics.total, frozenset(shared.trainers), bool(shared.pause_reason), metrics.reports
                )
        now = self._clock()
        self._trained, self._at = self._trained + self._rate * (now - self._at), now
        running = self._pods().running.get(WORKER, 0)
        if running != self._running:  # what was reported before is about another number of them
            self._running, self._changed, self._rate = running, now, 0.0
        return TrainingSnapshot(self._trained, frozenset(range(running)), self._rate <= 0)

    def reported(self, progress: LastProgress | None) -> None:
        """Takes the job's own report, for jobs whose tasks are not with us; believed while it is about the present
        workers. One that runs may still be starting: the report of those that train then says how many they are.
        """
        self.snapshot()
        if progress is None or progress.throughput is None:
            self._rate = 0.0
            return
        fresh = progress.age <= FRESH and self._clock() - progress.age >= self._changed
        of_all = progress.workers is None or progress.workers == self._running
        self._rate = max(0.0, progress.throughput) if fresh and of_all else 0.0

    def remaining(self) -> float:
        """Samples still to train, from what a task has taken so far; 0 while nobody can say."""
        with self._shared.changed:
            queue, report = self._shared.queue, self._shared.metrics
            if not queue.opened:
                return 0.0
            left = (queue.passes - queue.pass_index) * queue.chunks - queue.done.count
            if report.records:
                return left * report.records / queue.chunks
            finished = queue.pass_index * queue.chunks + queue.done.count - self._done_before
            return left * report.total / finished if finished > 0 else 0.0

    def pause(self) -> float:
        return self._shared.metrics.pause or 0.0

    def records(self) -> int:
        return self._shared.metrics.records
