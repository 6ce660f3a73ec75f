"""Leased task queue: leases the chunks of the present pass in order, finishes each once, and requeues lost ones.

Pure: no clock, no lock, no I/O. A lease is a random number known to its holder, so that it means the same to the next
master. A task is finished once per era, by the holder of its lease or by a former holder while nobody else has one.
"""

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import islice

from edl.runtime.tasks.progress import MAX_CHUNKS, DoneSet, Progress, QueueSnapshot

KEPT_CHECKPOINTS = 2
KEPT_ROLLBACKS = 64
KEPT_RECENT = 1024
FAILURES = 3


@dataclass(frozen=True)
class Lease:
    """A lease on a chunk. Complete enough for its holder to present it to a master that does not know it."""

    number: int
    holder: int
    era: int
    pass_index: int
    chunk: int
    deadline: float = 0.0


class TaskQueue:
    def __init__(
        self, progress: Progress, *, term: float, new_lease: Callable[[], int], failures: int = FAILURES
    ) -> None:
        self._term, self._new_lease, self._max_failures = term, new_lease, failures
        self.chunks, self.passes = progress.chunks, progress.passes
        self.parameters = progress.parameters
        self.era, self.next_checkpoint = progress.era, progress.next_checkpoint
        self.checkpoints, self.rollbacks = list(progress.checkpoints), list(progress.rollbacks)
        self.failed = progress.failed
        self.version = 0  # grows with everything that must be durable
        # (lease, checkpoint) by task, newest last
        self._finishers = {(row[0], row[1]): row[2:] for row in progress.recent}
        self._start(progress.pass_index, DoneSet(self.chunks, progress.done), dict(progress.failures))

    def progress(self) -> Progress:
        return Progress(
            chunks=self.chunks,
            passes=self.passes,
            parameters=self.parameters,
            pass_index=self.pass_index,
            done=self.done.pack(),
            failures=self._failures,
            era=self.era,
            next_checkpoint=self.next_checkpoint,
            checkpoints=self.checkpoints,
            rollbacks=self.rollbacks,
            recent=[(*task, *by) for task, by in islice(reversed(self._finishers.items()), KEPT_RECENT)][::-1],
            failed=self.failed,
        )

    @property
    def opened(self) -> bool:
        return self.chunks > 0

    @property
    def finished(self) -> bool:
        return self.opened and self.pass_index >= self.passes

    def open(self, chunks: int, passes: int) -> None:
        """Fixes the number of chunks and passes, once and for all."""
        if not 1 <= chunks <= MAX_CHUNKS or passes < 1:
            raise ValueError(
                f"{chunks} chunks in {passes} passes: there must be 1 to {MAX_CHUNKS} chunks, 1 pass or more"
            )
        self.chunks, self.passes = chunks, passes
        self._start(0, DoneSet(chunks), {})
        self.version += 1

    def use_parameters(self) -> None:
        if not self.parameters:
            self.parameters = True
            self.version += 1

    @property
    def leases(self) -> Iterable[Lease]:
        return self._leases.values()

    def lease(self, holder: int, now: float) -> Lease | None:
        """Leases the lowest free chunk; None if there is none at the moment."""
        self.expire(now)
        chunk = None if self.finished or self.failed or not self.opened else self._take()
        if chunk is None:
            return None
        lease = Lease(self._new_lease(), holder, self.era, self.pass_index, chunk, now + self._term)
        self._leases[chunk] = lease
        return lease

    def renew(self, lease: Lease, now: float) -> bool:
        """Extends a lease, or restores one of a former master, or an expired one if the chunk is free."""
        if not self._valid(lease):
            return False
        self._leases[lease.chunk] = replace(lease, deadline=now + self._term)
        return True

    def finish(self, lease: Lease) -> int:
        """The first checkpoint that contains the task as done by this lease; 0 if it does not count.

        Idempotent: a holder whose answer was lost gets the same answer again.
        """
        task = (lease.pass_index, lease.chunk)
        if not self._valid(lease):
            finisher, checkpoint = self._finishers.get(task, (0, 0))
            return checkpoint if lease.era == self.era and finisher == lease.number else 0
        self._leases.pop(lease.chunk, None)
        self.done.add(lease.chunk)
        self._finishers[task] = (lease.number, self.next_checkpoint)
        self.version += 1
        if self.done.full:
            self._start(self.pass_index + 1, DoneSet(self.chunks), {})
        return self.next_checkpoint

    def give_back(self, lease: Lease) -> None:
        """Requeues a task that its holder will not do; does not count as a failure."""
        if self._valid(lease):
            self._requeue(lease.chunk)

    def fail(self, lease: Lease, reason: str) -> None:
        """Requeues a task that its holder could not do. Too many failures of a chunk fail the job: none is dropped."""
        if not self._valid(lease):
            return
        self._requeue(lease.chunk)
        count = self._failures[lease.chunk] = self._failures.get(lease.chunk, 0) + 1
        self.version += 1
        if count >= self._max_failures:
            self.give_up(f"chunk {lease.chunk} of pass {lease.pass_index} failed {count} times; last: {reason[:500]}")

    def give_up(self, reason: str) -> None:
        """Fails the job for good."""
        self.failed = reason
        self.version += 1

    def release_all(self, holder: int) -> int:
        """Requeues all tasks of a lost holder; returns their number."""
        chunks = [lease.chunk for lease in self._leases.values() if lease.holder == holder]
        for chunk in chunks:
            self._requeue(chunk)
        return len(chunks)

    def expire(self, now: float) -> None:
        for lease in [lease for lease in self._leases.values() if lease.deadline <= now]:
            self._requeue(lease.chunk)

    def begin_checkpoint(self) -> QueueSnapshot:
        """The present progress under the next checkpoint's number. Later tasks belong to the checkpoint after it.

        The number becomes durable with whatever is done next; if nothing is, the next master may use it again.
        """
        snapshot = QueueSnapshot(self.next_checkpoint, self.pass_index, self.done.pack(), dict(self._failures))
        self.next_checkpoint += 1
        return snapshot

    def complete_checkpoint(self, snapshot: QueueSnapshot) -> None:
        self.checkpoints = [*self.checkpoints, snapshot][-KEPT_CHECKPOINTS:]
        self.version += 1

    def adopt_checkpoint(self, snapshot: QueueSnapshot) -> None:
        """One that this queue does not know of, in place of those that it knows and that are not there."""
        self.checkpoints = [snapshot]
        self.next_checkpoint = max(self.next_checkpoint, snapshot.number + 1)
        self.version += 1

    def roll_back(self, snapshot: QueueSnapshot | None) -> None:
        """Resets the queue to `snapshot` (None: before the first task) and begins a new era; the parameters follow."""
        self.era += 1
        self.rollbacks = [*self.rollbacks, (self.era, snapshot.number if snapshot else 0)][-KEPT_ROLLBACKS:]
        self.checkpoints = [kept for kept in self.checkpoints if snapshot and kept.number <= snapshot.number]
        packed, failures = (snapshot.done, dict(snapshot.failures)) if snapshot else (b"", {})
        self._start(snapshot.pass_index if snapshot else 0, DoneSet(self.chunks, packed), failures)
        self._finishers = {}
        self.version += 1

    def validate(self) -> None:
        """Asserts every invariant, for tests."""
        assert 0 <= self.pass_index <= self.passes
        assert not self.opened or not self.done.full
        for chunk, lease in self._leases.items():
            assert lease.chunk == chunk
            assert chunk not in self.done
            assert (lease.era, lease.pass_index) == (self.era, self.pass_index)
        reachable = {*self._returned, *range(self._next, self.chunks), *self._leases, *self.done}
        assert self.finished or reachable >= set(range(self.chunks)), "a chunk is lost"
        numbers = [snapshot.number for snapshot in self.checkpoints]
        assert numbers == sorted(set(numbers))
        assert all(number < self.next_checkpoint for number in numbers)

    def _start(self, pass_index: int, done: DoneSet, failures: dict[int, int]) -> None:
        self.pass_index, self.done, self._failures = pass_index, done, failures
        self._leases: dict[int, Lease] = {}
        self._returned: list[int] = []  # heap of chunks below `_next` that were given back
        self._next = 0
        self._finishers = {task: by for task, by in self._finishers.items() if task[0] >= pass_index - 1}

    def _take(self) -> int | None:
        while self._returned:
            chunk = heapq.heappop(self._returned)
            if chunk not in self.done and chunk not in self._leases:
                return chunk
        while self._next < self.chunks:
            self._next += 1
            if self._next - 1 not in self.done and self._next - 1 not in self._leases:
                return self._next - 1
        return None

    def _requeue(self, chunk: int) -> None:
        self._leases.pop(chunk, None)
        heapq.heappush(self._returned, chunk)

    def _current(self, lease: Lease) -> bool:
        known = 0 <= lease.chunk < self.chunks
        return known and not self.failed and (lease.era, lease.pass_index) == (self.era, self.pass_index)

    def _valid(self, lease: Lease) -> bool:
        """Whether this lease may still act on its task: it is the present one, or there is none."""
        if not self._current(lease) or lease.chunk in self.done:
            return False
        present = self._leases.get(lease.chunk)
        return present is None or present.number == lease.number
