"""The checkpoint keeper against fake servers: its answer to each kind of loss, one reconcile at a time."""

import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from edl.runtime.parameters.messages import ServerState
from edl.runtime.rpc import RefusalError
from edl.runtime.tasks.checkpoint_keeper import POSTPONE, SHORTEST, CheckpointKeeper
from edl.runtime.tasks.progress import DoneSet, Progress, QueueSnapshot
from edl.runtime.tasks.shared_state import ObservedJob, ServerSlot, SharedState

ONE, TWO, THREE = (ServerSlot(index, 1, f"host{index}:1") for index in range(3))


class Servers:
    """Parameter servers as plain data, with the master's calls on them written down."""

    def __init__(self) -> None:
        self.held: dict[ServerSlot, ServerState] = {}
        self.silent: set[ServerSlot] = set()
        self.damaged: set[int] = set()
        self.saves: list[tuple[int, bool]] = []
        self.restores: list[tuple[int, int]] = []
        self.released: list[ServerSlot] = []
        self.fail_saves = False
        self.on_disk: QueueSnapshot | None = None

    def add(self, *members: ServerSlot) -> None:
        for member in members:
            self.held[member] = ServerState(0, 0, 0, False, False, False)

    def initialise(self) -> None:
        self.held = {m: _with(s, initialised=True, digest="d") for m, s in self.held.items()}

    def states(self, members: Iterable[ServerSlot]) -> dict[ServerSlot, ServerState | None]:
        return {member: None if member in self.silent else self.held.get(member) for member in members}

    def restore(
        self, layout: Sequence[ServerSlot], era: int, snapshot: QueueSnapshot | None, members: Iterable[ServerSlot]
    ) -> list[Exception]:
        number = snapshot.number if snapshot else 0
        self.restores.append((era, number))
        if number in self.damaged:
            return [RefusalError("damaged", f"checkpoint {number} is cut short")]
        for shard, member in enumerate(layout):
            self.held[member] = ServerState(era, shard, len(layout), bool(number), False, False, "d" if number else "")
        return []

    def save(
        self, layout: Sequence[ServerSlot], era: int, snapshot: QueueSnapshot, keep: list[int], freeze: bool
    ) -> list[Exception]:
        assert snapshot.shards == len(layout), "as it is kept beside the files"
        self.saves.append((snapshot.number, freeze))
        for member in layout:
            self.held[member] = _with(self.held[member], frozen=freeze)
        return [ConnectionError("gone")] if self.fail_saves else []

    def newest(self, members: Iterable[ServerSlot]) -> QueueSnapshot | None:
        return self.on_disk

    def release(self, members: Iterable[ServerSlot]) -> None:
        self.released += members


def _with(state: ServerState, **changes: object) -> ServerState:
    fields = {name: getattr(state, name) for name in state.__struct_fields__}
    return ServerState(**{**fields, **changes})


class World:
    """A shared whose every change is durable at once, a keeper, and a clock that the test turns."""

    def __init__(self, progress: Progress, *members: ServerSlot, wanted: int = 2) -> None:
        self.now, self.servers = 100.0, Servers()
        self.servers.add(*members)
        self.shared = SharedState(progress, epoch=1, term=10.0)
        self.shared.observed = ObservedJob(wanted, members)
        self.keeper = self.new_keeper()
        self._over = threading.Event()
        self._journal = threading.Thread(target=self._write, daemon=True)
        self._journal.start()

    def new_keeper(self) -> CheckpointKeeper:
        return CheckpointKeeper(self.shared, self.servers, interval=30.0, grace=0.0, clock=lambda: self.now)  # type: ignore[arg-type]  # quacks

    def _write(self) -> None:
        while not self._over.wait(0.001):
            with self.shared.changed:
                if self.shared.durable < self.shared.queue.version:
                    self.shared.durable = self.shared.queue.version
                    self.shared.changed.notify_all()

    def reconcile(self, times: int = 1) -> None:
        for _ in range(times):
            self.keeper.reconcile()

    def finish(self, count: int = 1) -> None:
        for _ in range(count):
            lease = self.shared.queue.lease(1, self.now)
            assert lease is not None
            assert self.shared.queue.finish(lease)

    def close(self) -> None:
        self._over.set()
        self._journal.join()


@pytest.fixture
def world() -> Iterator[World]:
    """Two servers in era 1, initialised, checkpoint 1 taken, tasks being given out."""
    made = World(Progress(chunks=9, passes=1, parameters=True), ONE, TWO)
    made.reconcile(2)
    assert made.shared.pause_reason == "waiting for a trainer to initialise the parameters"
    made.servers.initialise()
    made.reconcile()
    assert (made.shared.pause_reason, made.shared.addresses, made.shared.digest) == ("", ["host0:1", "host1:1"], "d")
    assert made.servers.saves == [(1, False)]
    yield made
    made.close()


def test_without_parameters_tasks_are_given_out_at_once() -> None:
    made = World(Progress(), wanted=0)
    made.reconcile()
    assert made.shared.pause_reason == ""
    made.close()


def test_it_waits_for_all_servers_that_the_job_wants() -> None:
    made = World(Progress(chunks=9, passes=1, parameters=True), ONE)
    made.reconcile(2)
    assert made.shared.pause_reason == "waiting for 2 parameter servers, 1 are there"
    assert made.servers.restores == []
    made.close()


def test_checkpoints_follow_the_interval_and_only_when_there_is_news(world: World) -> None:
    world.now += 100
    world.reconcile()
    assert len(world.servers.saves) == 1, "nothing was done since"
    world.finish()
    world.reconcile()
    assert world.servers.saves[1:] == [(2, False)]
    world.finish()
    world.reconcile()
    assert len(world.servers.saves) == 2, "too soon"


@pytest.mark.parametrize(("took", "pause"), [(0.0, 2.0), (0.5, 10.0), (60.0, 30.0)])
def test_checkpoints_are_as_far_apart_as_saving_is_slow(world: World, took: float, pause: float) -> None:
    save = world.servers.save

    def slow(*args: Any, **kwargs: Any) -> list[Exception]:
        world.now += took
        return save(*args, **kwargs)

    world.servers.save = slow  # type: ignore[method-assign]  # a slow disk
    world.finish()
    world.now += 100
    began = world.now
    world.reconcile()
    world.finish()
    world.now = max(world.now, began + pause - 0.1)
    world.reconcile()
    assert len(world.servers.saves) == (2 if took < pause else 3)
    world.now += 0.2
    world.reconcile()
    assert len(world.servers.saves) == 3


def test_the_end_has_a_checkpoint_of_its_own_before_trainers_are_told(world: World) -> None:
    world.finish(9)
    assert not world.shared.ended
    world.reconcile()
    assert world.shared.ended
    assert world.servers.saves[1:] == [(2, False)]


def test_a_server_that_lost_its_memory_takes_queue_and_servers_back(world: World) -> None:
    world.finish(3)
    world.servers.add(TWO)
    world.reconcile()
    assert world.shared.pause_reason.startswith("waiting for")
    world.reconcile()
    assert world.servers.restores[-1] == (2, 1)
    assert (world.shared.queue.done.count, world.shared.queue.era) == (0, 2)
    assert world.shared.pause_reason == ""


def test_a_silent_server_stops_the_handing_out_but_undoes_nothing(world: World) -> None:
    world.finish(3)
    world.servers.silent = {TWO}
    world.reconcile(3)
    assert world.shared.pause_reason == "the parameter server at host1:1 does not answer"
    world.servers.silent = set()
    world.reconcile()
    assert (world.shared.pause_reason, world.shared.queue.done.count, world.shared.queue.era) == ("", 3, 1)


def test_a_new_master_finds_the_layout_and_undoes_nothing(world: World) -> None:
    world.finish(3)
    world.keeper = world.new_keeper()
    world.reconcile()
    assert (world.shared.pause_reason, world.shared.queue.era, world.shared.queue.done.count) == ("", 1, 3)


def test_a_new_master_does_not_take_a_slow_server_for_a_lost_one(world: World) -> None:
    world.keeper, world.servers.silent = world.new_keeper(), {ONE}
    world.reconcile(2)
    assert "does not answer" in world.shared.pause_reason
    world.servers.silent = set()
    world.reconcile()
    assert (world.shared.pause_reason, world.shared.queue.era) == ("", 1)


def test_a_new_master_that_finds_frozen_servers_restores_them(world: World) -> None:
    world.servers.held[ONE] = _with(world.servers.held[ONE], frozen=True)
    world.keeper = world.new_keeper()
    world.reconcile(2)
    assert (world.shared.pause_reason, world.shared.queue.era) == ("", 2)


def test_a_damaged_checkpoint_is_given_up_for_the_one_before(world: World) -> None:
    world.finish(2)
    world.now += 100
    world.reconcile()
    world.finish(2)
    world.servers.add(ONE)
    world.servers.damaged = {2}
    world.reconcile(4)
    assert world.servers.restores[-2:] == [(2, 2), (3, 1)]
    assert (world.shared.pause_reason, world.shared.queue.done.count) == ("", 0)


def test_without_any_readable_checkpoint_the_job_fails_in_words(world: World) -> None:
    world.servers.add(ONE)
    world.servers.damaged = {1}
    world.reconcile(3)
    assert "checkpoint 1 is cut short; no older checkpoint is left" in world.shared.queue.failed
    assert "volume that all pods share" in world.shared.queue.failed


def _snapshot(number: int, *done: int) -> QueueSnapshot:
    kept = DoneSet(9)
    kept.update(done)
    return QueueSnapshot(number, 0, kept.pack(), {}, 2)


def test_if_those_it_knows_are_gone_the_newest_on_disk_counts_with_its_queue(world: World) -> None:
    """The volume is older than the queue, as after a restore; and what cannot be read either is tried once."""
    world.servers.add(ONE)
    world.servers.damaged, world.servers.on_disk = {1}, _snapshot(40, 0, 1, 2)
    world.reconcile(4)
    assert world.servers.restores[-2:] == [(2, 1), (3, 40)]
    assert (world.shared.pause_reason, sorted(world.shared.queue.done)) == ("", [0, 1, 2])
    assert world.shared.queue.next_checkpoint > 40, "no number is used twice"
    world.shared.queue.validate()
    world.servers.add(ONE)
    world.servers.damaged = {40}
    world.reconcile(4)
    assert "no older checkpoint is left" in world.shared.queue.failed


@pytest.mark.parametrize(("number", "restored"), [(7, 7), (1, 1)], ids=["newer", "the same"])
def test_a_restored_job_takes_the_newest_on_disk(world: World, number: int, restored: int) -> None:
    """The queue of its backup is older than the volume; unless there is nothing newer."""
    world.servers.add(ONE, TWO)
    world.servers.on_disk = _snapshot(number, 3, 4)
    world.keeper = CheckpointKeeper(
        world.shared,
        world.servers,  # type: ignore[arg-type]  # quacks
        interval=30.0,
        grace=0.0,
        restored=True,
        clock=lambda: world.now,
    )
    world.reconcile(3)
    assert world.servers.restores[-1] == (2, restored)
    assert sorted(world.shared.queue.done) == ([3, 4] if restored == 7 else [])
    world.shared.queue.validate()


def test_a_checkpoint_that_fails_is_tried_again_under_another_number(world: World) -> None:
    world.finish()
    world.now += 100
    world.servers.fail_saves = True
    world.reconcile()
    world.servers.fail_saves = False
    assert [snapshot.number for snapshot in world.shared.queue.checkpoints] == [1]
    world.now += 100
    world.reconcile()
    assert [snapshot.number for snapshot in world.shared.queue.checkpoints] == [1, 3]


def test_a_server_that_fetched_its_values_is_saved_soon_though_nothing_was_done(world: World) -> None:
    world.servers.held[TWO] = _with(world.servers.held[TWO], fetched=True)
    world.reconcile()
    assert len(world.servers.saves) == 1
    world.now += SHORTEST
    world.reconcile()
    assert world.servers.saves[1:] == [(2, False)]


def test_a_checkpoint_that_may_be_on_a_silent_server_is_not_given_up(world: World) -> None:
    restore, world.servers.restore = world.servers.restore, lambda *_: [RefusalError("unreachable", "x")]  # type: ignore[method-assign]  # a fault
    world.servers.add(TWO)
    world.reconcile(3)
    assert world.shared.queue.failed == ""
    world.servers.restore = restore  # type: ignore[method-assign]  # it answers again
    world.reconcile(2)
    assert (world.shared.pause_reason, world.shared.queue.era) == ("", 2)


def test_growing_waits_for_tasks_under_way_then_moves_everything_at_a_checkpoint(world: World) -> None:
    world.finish(3)
    world.servers.add(THREE)
    world.shared.observed = ObservedJob(3, (ONE, TWO, THREE))
    world.reconcile(2)
    assert world.servers.saves[-1] == (2, True)
    assert world.servers.restores[-1] == (2, 2)
    assert world.shared.addresses == ["host0:1", "host1:1", "host2:1"]
    assert world.shared.queue.done.count == 3, "nothing is done again"
    assert world.servers.released == []


def test_shrinking_keeps_those_that_stay_and_releases_the_leaver(world: World) -> None:
    world.shared.observed = replace(world.shared.observed, wanted=1, departing=frozenset({ONE}))
    world.reconcile(2)
    assert world.shared.addresses == ["host1:1"]
    assert world.servers.released == [ONE]


def test_a_server_that_drains_is_replaced_by_one_that_waits(world: World) -> None:
    world.servers.add(THREE)
    world.servers.held[ONE] = _with(world.servers.held[ONE], draining=True)
    world.shared.observed = ObservedJob(2, (ONE, TWO, THREE))
    world.reconcile(2)
    assert world.shared.addresses == ["host1:1", "host2:1"]


def test_a_move_is_put_off_while_a_task_does_not_end(world: World) -> None:
    world.shared.term = 0.05
    lease = world.shared.queue.lease(1, world.now)
    assert lease is not None
    world.servers.add(THREE)
    world.shared.observed = ObservedJob(3, (ONE, TWO, THREE))
    ticks = iter(range(1000))
    world.keeper._clock = lambda: 100.0 + 0.02 * next(ticks)
    world.reconcile()
    assert world.servers.saves == [(1, False)]
    assert not any(freeze for _, freeze in world.servers.saves)
    world.keeper._clock = lambda: 101.0
    world.shared.queue.finish(lease)
    world.reconcile()
    assert world.shared.pause_reason == ""
    world.keeper._clock = lambda: 101.0 + 2 * POSTPONE
    world.reconcile(2)
    assert len(world.shared.addresses) == 3


def test_if_those_wanted_vanish_in_the_middle_the_present_ones_go_on(world: World) -> None:
    world.finish(3)
    world.servers.add(THREE)
    world.shared.observed = ObservedJob(3, (ONE, TWO, THREE))
    world.servers.silent = set()
    saved = world.servers.save

    def vanish(*args: object, **kwargs: object) -> list[Exception]:
        world.shared.observed = ObservedJob(3, (ONE, TWO))
        return saved(*args, **kwargs)  # type: ignore[arg-type]  # passed on

    world.servers.save = vanish  # type: ignore[method-assign]  # a fault
    world.reconcile(3)
    assert world.shared.addresses == ["host0:1", "host1:1"]
    assert (world.shared.pause_reason, world.shared.queue.done.count) == ("", 3)


@pytest.mark.parametrize(
    ("running", "back", "seconds", "opens"),
    [
        (2, 1, 0.9, False),
        (2, 2, 0.0, True),
        (None, 9, 0.9, False),
        (2, 0, 1.1, True),
        (0, 0, 0.0, True),
    ],
    ids=["one is missing", "all are back", "nobody knows how many", "long enough", "none runs"],
)
def test_after_a_restart_trainers_of_the_last_master_come_first(
    running: int | None, back: int, seconds: float, opens: bool
) -> None:
    made = World(Progress(chunks=9, passes=1, done=DoneSet(9).pack()), wanted=0)
    made.shared.observed = replace(made.shared.observed, running=running)
    made.keeper = CheckpointKeeper(made.shared, made.servers, interval=30.0, grace=1.0, clock=lambda: made.now)  # type: ignore[arg-type]  # quacks
    made.shared.trainers = {number: f"pod-{number}" for number in range(back)}
    made.now += seconds
    made.reconcile()
    assert made.shared.pause_reason == ("" if opens else "waiting for the trainers of the last master")
    made.close()
