"""The task queue, pure: chunks of the present pass are leased in order, finished once, and given out again when lost.

No clock, no lock, no I/O. A lease is a random number that its holder knows, so that it means the same to the next
master. A task is finished once in an era by whoever holds its lease, or by a former holder while nobody else does.
"""

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import islice

from .progress import MAX_CHUNKS, Cut, DoneSet, Progress

KEPT_CHECKPOINTS = 2
KEPT_ROLLBACKS = 64
KEPT_RECENT = 1024
FAILURES = 3


@dataclass(frozen=True)
class Lease:
    """Also how a holder names its task to a master that has never heard of the lease."""

    number: int
    holder: int
    era: int
    pass_index: int
    chunk: int
    deadline: float = 0.0


class TaskQueue:
    def __init__(self, progress: Progress, *, term: float, draw: Callable[[], int], failures: int = FAILURES) -> None:
        self._term, self._draw, self._budget = term, draw, failures
        self.chunks, self.passes = progress.chunks, progress.passes
        self.parameters = progress.parameters
        self.era, self.cut = progress.era, progress.cut
        self.checkpoints, self.rollbacks = list(progress.checkpoints), list(progress.rollbacks)
        self.failed = progress.failed
        self.version = 0  # grows with everything that must be durable
        self._finishers = {(row[0], row[1]): row[2:] for row in progress.recent}  # (lease, cut) by task, newest last
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
            cut=self.cut,
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
        """How much there is to do, once and for all."""
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
        """The lowest chunk that nobody has, or None if there is none at the moment."""
        self.expire(now)
        chunk = None if self.finished or self.failed or not self.opened else self._take()
        if chunk is None:
            return None
        lease = Lease(self._draw(), holder, self.era, self.pass_index, chunk, now + self._term)
        self._leases[chunk] = lease
        return lease

    def renew(self, lease: Lease, now: float) -> bool:
        """Extends a lease, or takes it up again if a former master gave it out or it expired with nobody else on it."""
        if not self._open(lease):
            return False
        self._leases[lease.chunk] = replace(lease, deadline=now + self._term)
        return True

    def finish(self, lease: Lease) -> int:
        """The first checkpoint that has the task as done by this lease, 0 if its work is not wanted.

        The same answer again to one who asks again because the first answer was lost.
        """
        task = (lease.pass_index, lease.chunk)
        if not self._open(lease):
            finisher, cut = self._finishers.get(task, (0, 0))
            return cut if lease.era == self.era and finisher == lease.number else 0
        self._leases.pop(lease.chunk, None)
        self.done.add(lease.chunk)
        self._finishers[task] = (lease.number, self.cut)
        self.version += 1
        if self.done.full:
            self._start(self.pass_index + 1, DoneSet(self.chunks), {})
        return self.cut

    def give_back(self, lease: Lease) -> None:
        """The holder did not do it and will not; that is nobody's fault."""
        if self._open(lease):
            self._requeue(lease.chunk)

    def fail(self, lease: Lease, reason: str) -> None:
        """The holder tried and could not. Too many of these and the job cannot go on: no chunk is ever dropped."""
        if not self._open(lease):
            return
        self._requeue(lease.chunk)
        count = self._failures[lease.chunk] = self._failures.get(lease.chunk, 0) + 1
        self.version += 1
        if count >= self._budget:
            self.give_up(f"chunk {lease.chunk} of pass {lease.pass_index} failed {count} times; last: {reason[:500]}")

    def give_up(self, reason: str) -> None:
        """The job cannot go on, for good."""
        self.failed = reason
        self.version += 1

    def lost(self, holder: int) -> int:
        """The holder is gone: everything it had is given out again at once."""
        chunks = [lease.chunk for lease in self._leases.values() if lease.holder == holder]
        for chunk in chunks:
            self._requeue(chunk)
        return len(chunks)

    def expire(self, now: float) -> None:
        for lease in [lease for lease in self._leases.values() if lease.deadline <= now]:
            self._requeue(lease.chunk)

    def begin_checkpoint(self) -> Cut:
        """What is done now, under the next number. Later tasks belong to the checkpoint after it.

        The number becomes durable with whatever is done next; if nothing is, the next master may use it again.
        """
        cut = Cut(self.cut, self.pass_index, self.done.pack(), dict(self._failures))
        self.cut += 1
        return cut

    def complete_checkpoint(self, cut: Cut) -> None:
        self.checkpoints = [*self.checkpoints, cut][-KEPT_CHECKPOINTS:]
        self.version += 1

    def roll_back(self, cut: Cut | None) -> None:
        """Parameters are about to be as they were at `cut` (None: as before the first task); so is the queue."""
        self.era += 1
        self.rollbacks = [*self.rollbacks, (self.era, cut.number if cut else 0)][-KEPT_ROLLBACKS:]
        self.checkpoints = [kept for kept in self.checkpoints if cut and kept.number <= cut.number]
        packed, failures = (cut.done, dict(cut.failures)) if cut else (b"", {})
        self._start(cut.pass_index if cut else 0, DoneSet(self.chunks, packed), failures)
        self._finishers = {}
        self.version += 1

    def validate(self) -> None:
        """Every invariant, for tests."""
        assert 0 <= self.pass_index <= self.passes
        assert not self.opened or not self.done.full
        for chunk, lease in self._leases.items():
            assert lease.chunk == chunk
            assert chunk not in self.done
            assert (lease.era, lease.pass_index) == (self.era, self.pass_index)
        reachable = {*self._returned, *range(self._next, self.chunks), *self._leases, *self.done}
        assert self.finished or reachable >= set(range(self.chunks)), "a chunk is lost"
        numbers = [cut.number for cut in self.checkpoints]
        assert numbers == sorted(set(numbers))
        assert all(number < self.cut for number in numbers)

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

    def _open(self, lease: Lease) -> bool:
        """Whether this lease may still act on its task: it is the present one, or nobody has one."""
        if not self._current(lease) or lease.chunk in self.done:
            return False
        present = self._leases.get(lease.chunk)
        return present is None or present.number == lease.number
