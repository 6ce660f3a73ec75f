"""The queue as a pure state machine: no task is lost, none counts twice, whatever order things happen in."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from edl.runtime.tasks.progress import MAX_CHUNKS, DoneSet, Progress, QueueSnapshot, decode, encode
from edl.runtime.tasks.queue import Lease, TaskQueue

TERM = 10.0


def queue(chunks: int = 4, passes: int = 1, progress: Progress | None = None) -> TaskQueue:
    numbers = itertools.count(1)
    made = TaskQueue(progress or Progress(), term=TERM, new_lease=lambda: next(numbers))
    if progress is None:
        made.open(chunks, passes)
    return made


def take(made: TaskQueue, holder: int = 1, now: float = 0.0) -> Lease:
    lease = made.lease(holder, now)
    assert lease is not None
    return lease


def test_tasks_leave_in_order_and_passes_follow_each_other() -> None:
    made, seen = queue(3, 2), []
    while not made.finished:
        lease = take(made)
        seen.append((lease.pass_index, lease.chunk))
        assert made.finish(lease)
    assert seen == [(index, chunk) for index in range(2) for chunk in range(3)]
    assert made.lease(1, 0.0) is None


def test_a_pass_begins_when_the_last_task_of_the_one_before_is_done() -> None:
    made = queue(2, 2)
    first, second = take(made), take(made, 2)
    made.finish(first)
    assert made.lease(1, 0.0) is None
    made.finish(second)
    assert take(made).pass_index == 1


def test_a_lease_that_is_not_renewed_is_given_to_another() -> None:
    made = queue(1)
    slow = take(made, 1, now=0.0)
    assert made.renew(slow, now=8.0)
    assert made.lease(2, now=17.0) is None, "renewed at 8, so it lasts until 18"
    quick = take(made, 2, now=18.0)
    assert not made.renew(slow, now=18.0)
    assert made.finish(slow) == 0, "its work is not wanted any more"
    assert made.finish(quick) == 1


def test_late_work_counts_if_nobody_else_has_the_task() -> None:
    made = queue(2)
    slow = take(made, 1, now=0.0)
    made.expire(20.0)
    assert made.finish(slow) == 1
    assert take(made, 2, now=20.0).chunk == 1


def test_asking_again_gets_the_same_answer_also_from_the_next_master() -> None:
    made = queue(2, 1)
    lease = take(made)
    answer = made.finish(lease)
    made.begin_checkpoint()
    assert made.finish(lease) == answer
    after = queue(progress=decode(encode(made.progress())))
    assert after.finish(lease) == answer
    last = take(after)
    assert after.finish(last) == answer + 1
    assert after.finished
    final = queue(progress=decode(encode(after.progress())))
    assert final.finish(last) == answer + 1, "also across the end of a pass"
    assert final.finish(replace(last, number=99)) == 0


def test_a_new_master_takes_up_the_leases_of_the_last() -> None:
    made = queue(3)
    held = take(made)
    after = queue(progress=decode(encode(made.progress())))
    assert after.renew(held, now=0.0)
    assert take(after, 2).chunk == 1
    assert after.finish(held)


def test_what_a_lost_trainer_had_goes_first() -> None:
    made = queue(4)
    take(made, 1)
    take(made, 2)
    assert made.release_all(1) == 1
    assert take(made, 3).chunk == 0
    assert made.release_all(7) == 0


def test_returning_a_task_is_no_failure_and_failing_it_three_times_ends_the_job() -> None:
    made = queue(1)
    for _ in range(5):
        made.give_back(take(made))
    for reason in ("a", "b", "c"):
        assert not made.failed
        made.fail(take(made), reason)
    assert made.failed == "chunk 0 of pass 0 failed 3 times; last: c"
    assert made.lease(1, 0.0) is None
    assert queue(progress=decode(encode(made.progress()))).failed


def test_a_rollback_takes_the_queue_to_the_cut_and_refuses_the_old_era() -> None:
    made = queue(4, 2)
    made.finish(take(made))
    snapshot = made.begin_checkpoint()
    late = take(made)
    assert made.finish(late) == snapshot.number + 1, "not in this checkpoint but in the next"
    made.complete_checkpoint(snapshot)
    old = take(made)
    made.roll_back(snapshot)
    assert list(made.done) == [0]
    assert (made.era, made.rollbacks) == (1, [(1, snapshot.number)])
    assert made.finish(old) == 0
    assert not made.renew(old, 0.0)
    assert take(made).chunk == 1
    made.roll_back(None)
    assert (made.done.count, made.checkpoints, made.pass_index) == (0, [], 0)


def test_a_cut_from_before_the_number_of_chunks_was_known_is_an_empty_one() -> None:
    made = TaskQueue(Progress(), term=TERM, new_lease=lambda: 1)
    assert made.lease(1, 0.0) is None
    assert not made.finished
    snapshot = made.begin_checkpoint()
    made.complete_checkpoint(snapshot)
    made.open(9, 1)
    made.finish(take(made))
    made.roll_back(snapshot)
    made.validate()
    assert take(made).chunk == 0


@pytest.mark.parametrize(("chunks", "passes"), [(0, 1), (MAX_CHUNKS + 1, 1), (3, 0)])
def test_impossible_sizes_are_refused(chunks: int, passes: int) -> None:
    with pytest.raises(ValueError, match="chunks"):
        queue(chunks, passes)


def test_half_a_million_tasks_with_holes_fit_the_services_limit() -> None:
    done = DoneSet(MAX_CHUNKS)
    done.update(chunk for chunk in range(300_000) if chunk % 500)  # as if 600 trainers held old tasks
    progress = Progress(
        chunks=MAX_CHUNKS,
        passes=10,
        done=done.pack(),
        checkpoints=[QueueSnapshot(number, 0, done.pack(), {}, 4) for number in (1, 2)],
        recent=[(0, chunk, 2**61 + chunk, 2) for chunk in range(1024)],
        rollbacks=[(era, era) for era in range(64)],
    )
    assert len(encode(progress)) < 40_000
    assert list(DoneSet(MAX_CHUNKS, done.pack())) == list(done)


class Machine(RuleBasedStateMachine):
    """Masters come and go, checkpoints and rollbacks happen; a model beside it keeps what must be true."""

    @initialize(chunks=st.integers(1, 5), passes=st.integers(1, 3))
    def begin(self, chunks: int, passes: int) -> None:
        self.now, self.held, self.counted = 0.0, [], {}  # type: tuple[float, list[Lease], dict[tuple[int, int], int]]
        self.snapshots: list[tuple[QueueSnapshot, dict[tuple[int, int], int]]] = []
        self.numbers = itertools.count(1)
        self.queue = TaskQueue(Progress(), term=TERM, new_lease=lambda: next(self.numbers))
        self.queue.open(chunks, passes)

    @rule(holder=st.integers(1, 3))
    def take(self, holder: int) -> None:
        lease = self.queue.lease(holder, self.now)
        if lease:
            assert (lease.pass_index, lease.chunk) not in self.counted
            self.held.append(lease)

    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        if self.held:
            lease = data.draw(st.sampled_from(self.held))
            task = (lease.pass_index, lease.chunk)
            if self.queue.finish(lease):
                assert lease.era == self.queue.era
                assert self.counted.setdefault(task, lease.number) == lease.number, "counted for two leases"

    @rule(data=st.data(), how=st.sampled_from(["renew", "give_back"]))
    def touch(self, data: st.DataObject, how: str) -> None:
        if self.held:
            lease = data.draw(st.sampled_from(self.held))
            if how == "renew":
                self.queue.renew(lease, self.now)
            else:
                self.queue.give_back(lease)

    @rule(holder=st.integers(1, 3))
    def lose(self, holder: int) -> None:
        self.queue.release_all(holder)

    @rule(seconds=st.sampled_from([1.0, 11.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(complete=st.booleans())
    def checkpoint(self, complete: bool) -> None:
        snapshot = self.queue.begin_checkpoint()
        if complete:
            self.queue.complete_checkpoint(snapshot)
            self.snapshots.append((snapshot, dict(self.counted)))

    @rule(older=st.booleans())
    def roll_back(self, older: bool) -> None:
        kept = self.queue.checkpoints[:-1] if older else self.queue.checkpoints
        snapshot = kept[-1] if kept else None
        self.queue.roll_back(snapshot)
        self.counted = next((dict(counted) for made, counted in self.snapshots if snapshot and made == snapshot), {})

    @rule()
    def new_master(self) -> None:
        self.queue = TaskQueue(decode(encode(self.queue.progress())), term=TERM, new_lease=lambda: next(self.numbers))

    @invariant()
    def sound(self) -> None:
        if not hasattr(self, "queue"):
            return
        self.queue.validate()
        done = {(self.queue.pass_index, chunk) for chunk in self.queue.done}
        earlier = {(i, chunk) for i in range(self.queue.pass_index) for chunk in range(self.queue.chunks)}
        assert set(self.counted) == done | earlier


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
