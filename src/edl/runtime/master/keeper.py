"""Keeps the parameter servers and the queue in step: forms the layout, takes checkpoints, and rolls both back together.

One thread, one look after another; each look compares what should be with what is and does the first thing that is
missing. The rules that make a rollback exact:
- The queue's new era is durable before any server is restored to it, and no task is given out until all of them are.
  (The eras before the first checkpoint are durable with that one.)
- A checkpoint's cut of the queue is taken before the servers save: every task in the cut had pushed everything before.
- Servers save which pushes they have applied, so that what was pushed after the cut is not applied twice on replay.
"""

import logging
import time
from collections.abc import Callable

import msgspec

from ..pserver.messages import State
from ..rpc import RefusalError
from .board import Board, Member
from .fleet import Fleet
from .progress import Cut

log = logging.getLogger(__name__)

LOOK = 0.5
POSTPONE = 30.0
SHORTEST, SHARE = 2.0, 20.0  # a checkpoint every 2 s, or as rarely as keeps saving below a twentieth of the time


class Keeper:
    def __init__(
        self,
        board: Board,
        fleet: Fleet,
        *,
        interval: float,
        grace: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._board, self._fleet, self._longest, self._clock = board, fleet, interval, clock
        self._layout: tuple[Member, ...] = ()
        self._view = board.view
        self._states: dict[Member, State | None] = {}
        self._restoring = False  # the present era has begun and not all servers are in it yet
        self._saved_at, self._save_took = clock(), 0.0
        patience = board.term if grace is None else grace  # after that a silent trainer would have lost its task anyway
        self._not_before = clock() + (patience if board.queue.opened else 0.0)
        self._postponed = 0.0
        self._closed_at: float | None = None

    def run(self) -> None:
        board = self._board
        while not board.stopping:
            try:
                self.look()
            except ConnectionError:
                log.info("ending")  # the board stops
            board.attention.wait(LOOK)
            board.attention.clear()

    def look(self) -> None:
        board, queue = self._board, self._board.queue
        with board.changed:
            queue.expire(self._clock())
            if self._clock() < self._not_before and not self._all_are_back():
                self._shut("waiting for the trainers of the last master")
                return
            self._not_before = 0.0
            if not queue.parameters:
                self._open()
                return
            if queue.failed:
                return
        self._look_at_servers()

    def _all_are_back(self) -> bool:
        """Trainers of the last master come and say what they hold, so that nobody else is given the same meanwhile."""
        running = self._board.view.running
        return running is not None and len(self._board.trainers) >= running

    def _look_at_servers(self) -> None:
        self._view = self._board.view  # one look sees one state of the job, though it may change meanwhile
        trouble = self._trouble()
        if trouble == "lost":
            self._recover()
        elif trouble:
            with self._board.changed:
                self._shut(trouble)
        else:
            self._serve()

    def _find_layout(self) -> str:
        """The servers that are in the present era already: a new master finds what the last one made."""
        states = self._states = self._fleet.states(self._view.members)
        silent = [member.address for member in self._wanted_layout() if states[member] is None]
        if silent:
            return f"the parameter server at {', '.join(silent)} does not answer"
        era = self._board.queue.era
        standing = {member: state for member, state in states.items() if state and era and state.era == era}
        found = {state.shard: member for member, state in standing.items()}
        complete = bool(found) and {state.shards for state in standing.values()} == {len(found)}
        self._layout = tuple(found[shard] for shard in sorted(found)) if complete else ()
        return "" if complete else "lost"

    def _trouble(self) -> str:
        """What keeps the present layout from being used: empty, `lost` if only a restore helps, else words."""
        members, era = self._view.members, self._board.queue.era
        if self._restoring:
            return "lost"
        if not self._layout and (trouble := self._find_layout()):
            return trouble
        if any(member not in members for member in self._layout):
            return "lost"
        self._states = self._fleet.states(self._layout)
        silent = [member.address for member, state in self._states.items() if state is None]
        if silent:
            return f"the parameter server at {', '.join(silent)} does not answer"
        whole = all(
            state and (state.era, state.shard, state.shards, state.frozen) == (era, shard, len(self._layout), False)
            for shard, state in enumerate(self._states.values())
        )
        return "" if whole else "lost"

    def _serve(self) -> None:
        """All servers are in the era: initialise, save, cut anew or simply go on."""
        board, queue = self._board, self._board.queue
        states = [state for state in self._states.values() if state]
        if not all(state.initialised for state in states):
            with board.changed:
                self._shut("waiting for a trainer to initialise the parameters")
                self._publish(digest="")
            return
        if not queue.checkpoints and not self._checkpoint():
            return
        with board.changed:
            self._publish(states[0].digest)
            self._open()
        wanted = self._wanted_layout()
        if wanted and set(wanted) != set(self._layout):
            self._cut_anew(wanted)
        elif self._checkpoint_due():
            self._checkpoint()

    def _checkpoint_due(self) -> bool:
        with self._board.changed:
            queue = self._board.queue
            newest = queue.checkpoints[-1]
            if queue.finished:
                return newest.pass_index < queue.passes
            news = (queue.pass_index, queue.done.pack()) != (newest.pass_index, newest.done)
            pause = min(self._longest, max(SHORTEST, self._save_took * SHARE))
            return news and self._clock() - self._saved_at >= pause

    def _checkpoint(self, freeze: bool = False) -> bool:
        """Takes a checkpoint while training goes on; with `freeze` nothing is pushed after it."""
        board, queue = self._board, self._board.queue
        with board.changed:
            cut, era, keep = queue.begin_checkpoint(), queue.era, [cut.number for cut in queue.checkpoints]
        self._saved_at = self._clock()
        failures = self._fleet.save(self._layout, era, cut.number, keep, freeze)
        self._save_took = self._clock() - self._saved_at
        if failures:
            log.warning("checkpoint %d failed: %s", cut.number, failures[0])
            return False
        with board.changed:
            queue.complete_checkpoint(msgspec.structs.replace(cut, shards=len(self._layout)))
            board.settle(queue.version)
        log.info("checkpoint %d: pass %d, %d shards", cut.number, cut.pass_index, len(self._layout))
        return True

    def _wanted_layout(self) -> tuple[Member, ...]:
        """As many servers as the job wants, those that are in place first; empty if there are not enough."""
        view = self._view
        draining = {member for member, state in self._states.items() if state and state.draining}
        usable = [member for member in view.members if member not in view.departing | draining]
        usable.sort(key=lambda member: (member not in self._layout, member.index))
        return tuple(usable[: view.wanted]) if view.wanted and len(usable) >= view.wanted else ()

    def _whole_layout(self) -> tuple[Member, ...]:
        """The present servers if all of them are still there; they will do when those wanted did not come."""
        view = self._view
        whole = all(member in view.members and member not in view.departing for member in self._layout)
        return self._layout if whole else ()

    def _cut_anew(self, wanted: tuple[Member, ...]) -> None:
        """Moves to another set of servers at a moment when no task is under way."""
        states = self._fleet.states(wanted).values()
        if self._clock() < self._postponed or any(state is None or state.draining for state in states):
            return
        with self._board.changed:
            self._shut(f"moving the parameters from {len(self._layout)} to {len(wanted)} servers")
            idle = self._quiet()
        if idle and self._checkpoint(freeze=True):
            self._recover()
            return
        self._postponed = self._clock() + POSTPONE
        log.warning("tasks are still under way; the move to %d servers is put off", len(wanted))

    def _quiet(self) -> bool:
        board, until = self._board, self._clock() + 2 * self._board.term
        while list(board.queue.leases) and self._clock() < until and not board.stopping:
            board.changed.wait(0.1)
            board.queue.expire(self._clock())
        return not list(board.queue.leases)

    def _recover(self) -> None:
        """Restores the newest checkpoint on as many servers as the job wants, and takes the queue back to it."""
        board, queue = self._board, self._board.queue
        view = self._view = board.view
        before, self._states = self._layout, self._fleet.states(view.members)
        wanted = self._wanted_layout() or self._whole_layout()
        with board.changed:
            there = len(view.members) - len(view.departing)
            self._shut(f"waiting for {view.wanted or 0} parameter servers, {there} are there")
            board.addresses = []
        if not wanted or any(self._states.get(member) is None for member in wanted):
            return
        with board.changed:
            if not self._restoring:
                self._restoring = True
                self._roll_back(queue.checkpoints[-1] if queue.checkpoints else None)
            cut, era = queue.checkpoints[-1] if queue.checkpoints else None, queue.era
        failures = self._fleet.restore(wanted, era, cut)
        if not failures:
            self._restoring, self._layout, self._saved_at = False, wanted, self._clock()
            self._fleet.release(member for member in before if member not in wanted and member in view.members)
            board.attention.set()
        elif cut and any(isinstance(error, RefusalError) and error.code == "damaged" for error in failures):
            self._fall_back(cut, failures[0])

    def _roll_back(self, cut: Cut | None) -> None:
        board = self._board
        board.queue.roll_back(cut)
        if cut is not None:  # before the first checkpoint no task was given out: there is nothing to protect
            board.settle(board.queue.version)
        level = logging.WARNING if cut else logging.INFO
        log.log(level, "era %d begins at checkpoint %d", board.queue.era, cut.number if cut else 0)

    def _fall_back(self, cut: Cut, error: Exception) -> None:
        """A checkpoint that cannot be read any more is given up for the one before it; without one, so is the job."""
        with self._board.changed:
            queue = self._board.queue
            older = [kept for kept in queue.checkpoints if kept.number < cut.number]
            if older:
                self._roll_back(older[-1])
                return
            queue.give_up(f"{error}; no older checkpoint is left. Keep checkpoints on a volume that all pods share")
            self._board.settle(queue.version)

    def _publish(self, digest: str) -> None:
        self._board.addresses = [member.address for member in self._layout]
        self._board.digest = digest
        self._board.changed.notify_all()

    def _open(self) -> None:
        if self._board.gate and self._closed_at is not None:
            self._board.report.pause = self._clock() - self._closed_at
        if self._board.gate:
            self._board.gate = ""
            self._board.changed.notify_all()

    def _shut(self, reason: str) -> None:
        if not self._board.gate:
            self._closed_at = self._clock()
        if self._board.gate != reason:
            log.info("no task is given out: %s", reason)
        self._board.gate = reason
