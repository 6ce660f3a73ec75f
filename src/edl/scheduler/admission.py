"""Minima before growth: every job gets its whole minimum, or waits and says what for (decisions 19, 20, 22).

Jobs that run below their minimum come first, then those that wait, by the policy's order. The oldest that has
waited five minutes goes before all others, and while it cannot be served nobody later is admitted to nodes it could
use; unless it could not run even if every job left, for then waiting for it would help nobody. Room is taken from
jobs above their minimum; a GPU job gives only to a GPU job. A gang for which room is still on its way out is not
admitted yet: its place is kept.

A gang that failed fails again for every later job of the same needs in this cycle, since room only gets scarcer:
the verdict is remembered.
"""

import math
from collections.abc import Sequence
from functools import partial

from msgspec import structs

from edl.scheduler.board import Board
from edl.scheduler.cycle import Cycle
from edl.scheduler.facts import NOWHERE
from edl.scheduler.gang import guard_of, hardest_first, overdrawn, place, take
from edl.scheduler.missing import missing, needs_in_words
from edl.scheduler.reasons import Code, Lack
from edl.scheduler.room import Donors, can_give
from edl.scheduler.seats import complete, seated, shrink
from edl.scheduler.settings import BLOCKS_AFTER
from edl.scheduler.settle import seat_up_to
from edl.scheduler.unit import Unit

_ABOUT_ROOM = (Code.NO_ROOM, Code.PROMISED)

_Signature = tuple[tuple[tuple[int, int], ...], str, bool]


def admit(cycle: Cycle) -> None:
    Admission(cycle).run()


class Admission:
    def __init__(self, cycle: Cycle) -> None:
        self.cycle = cycle
        self.board = cycle.board
        self.failed: dict[_Signature, Lack] = {}
        self._donors: Donors | None = None
        self._bare: Board | None = None

    def run(self) -> None:
        active = self.cycle.active
        self.cycle.said.clear()
        for unit in sorted((unit for unit in active if unit.short and not unit.facts.paused), key=lambda u: u.tie):
            self._complete(unit)
        waiting = [unit for unit in active if unit.size == 0 and not unit.facts.paused and unit.floor > 0]
        enter(self.cycle, waiting)
        for unit in sorted(waiting, key=self._turn):
            self._admit(unit)

    def _turn(self, unit: Unit) -> tuple[object, ...]:
        since = self._since(unit)
        if self.cycle.now - since >= BLOCKS_AFTER:
            return 0, since, unit.facts.created, unit.tie
        return 1, not unit.gpu, self.cycle.policy.serving(unit), unit.tie

    def _since(self, unit: Unit) -> float:
        """When it began to wait; of one that never ran, its creation."""
        cycle, key = self.cycle, unit.key
        since = cycle.waiting.get(key)
        if since is None:
            facts = unit.facts
            unknown = facts.started or unit.served > 0 or facts.created == math.inf
            since = cycle.memory.waiting.get(key, cycle.now if unknown else facts.created)
            cycle.waiting[key] = since
        return since

    def _complete(self, unit: Unit) -> None:
        """One that runs, or was created early, with pods of its minimum missing."""
        seat_up_to(self.board, unit, unit.pods_at(unit.size))
        unit.short = not complete(unit, unit.size)
        if not unit.short:
            return
        pods = [wanted - seated(unit, role) for role, wanted in enumerate(unit.pods_at(unit.size))]
        unit.lack = self._room_for(unit, [max(0, count) for count in pods])
        unit.reserved = unit.lack.code is Code.ROOM_COMING

    def _admit(self, unit: Unit) -> None:
        if self.cycle.blocker is not None and self._competes(unit, self.cycle.blocker):
            unit.lack = Lack(Code.OVERTAKEN, other=self.cycle.blocker.facts.path)
            self._start_anyway(unit)
            return
        pods = unit.pods_at(unit.floor)
        signature = _signature(unit, pods)
        lack = self.failed.get(signature)
        if lack is None:
            lack = self._seat_now(unit, pods)
            if lack is None:
                return
            lack = self._room_for(unit, pods)
        unit.lack = lack
        if lack.code is Code.ROOM_COMING:
            unit.reserved = True
            return
        if not lack.words:  # said at once: what is free now may be another's by the end of the cycle
            lack = structs.replace(lack, words=missing(self.cycle, lack, unit.facts))
        unit.lack = self.failed[signature] = lack
        if not self._start_anyway(unit) and self._blocks(unit, lack):
            self.cycle.blocker = unit

    def _seat_now(self, unit: Unit, pods: Sequence[int]) -> Lack | None:
        unit.open_seats()
        lack = place(self.board, unit, pods, now=True, growth=False)
        if lack is None:
            self._begin(unit)
        return lack

    def _begin(self, unit: Unit) -> None:
        self.board.resize(unit, unit.floor)
        unit.admitted = True
        self.cycle.waiting.pop(unit.key, None)

    def _start_anyway(self, unit: Unit) -> bool:
        """Pods are made without room: for an autoscaler to see, or in the hope of the first design."""
        lack = unit.lack
        refused = lack is not None and lack.code in (Code.REFUSED, Code.QUOTA, Code.BACKOFF)
        if refused or not (unit.facts.create_early or self.cycle.policy.starts_anyway(unit)):
            return False
        self._begin(unit)
        unit.optimistic = unit.short = True
        return True

    def _room_for(self, unit: Unit, pods: Sequence[int]) -> Lack:
        """Keep room that is on its way out, or send others away for it: ROOM_COMING, or what is missing."""
        lack = place(self.board, unit, pods, now=False, growth=False)
        if lack is None:
            return Lack(Code.ROOM_COMING, other=": pods are leaving")
        return self._send_away(unit, pods, lack)

    def _send_away(self, unit: Unit, pods: Sequence[int], lack: Lack) -> Lack:
        if lack.code in (Code.REFUSED, Code.BACKOFF):
            return lack
        mark = self.board.mark()
        givers: dict[int, Unit] = {}
        found = self._clear_nodes(unit, pods, givers) or self._settle_accounts(unit, pods, givers)
        if found is not None:
            self.board.rollback(mark)
            self.donors.changed(givers.values())
            return self._plainest(unit, pods, lack if found.code is Code.NO_ROOM else found)
        for giver in givers.values():
            giver.gives(Code.MADE_ROOM, f"the minimum of {unit.facts.path} ({self._need(unit)})")
        return Lack(Code.ROOM_COMING, other=f" by {', '.join(sorted(giver.facts.path for giver in givers.values()))}")

    def _plainest(self, unit: Unit, pods: Sequence[int], lack: Lack) -> Lack:
        """Where no node has room either, that says more than sums do."""
        if lack.code is Code.PROMISED:
            for role in hardest_first(unit, pods):
                if self.board.find(unit.facts.roles[role].shape, now=False) == NOWHERE:
                    return Lack(Code.NO_ROOM, role=role, needed=pods[role])
        return lack

    def _need(self, unit: Unit) -> str:
        name = unit.role.name if unit.role is not None else "pod"
        each = needs_in_words(self.cycle, unit.role.shape) if unit.role is not None else ""
        return f"{unit.floor} x {name}, {each} each"

    @property
    def donors(self) -> Donors:
        if self._donors is None:
            self._donors = Donors(self.board, self.cycle.units, self.cycle.policy)
        return self._donors

    def _may_give(self, unit: Unit, giver: Unit) -> bool:
        return giver is not unit and (unit.gpu or not giver.gpu)

    def _clear_nodes(self, unit: Unit, pods: Sequence[int], givers: dict[int, Unit]) -> Lack | None:
        """A node for every pod, emptied where need be."""
        for role in hardest_first(unit, pods):
            shape = unit.facts.roles[role].shape
            kept = list(unit.kept.get(role, ()))
            for done in range(pods[role]):
                prefer = kept.pop() if kept else NOWHERE
                node = self.board.find(shape, now=False, guard=guard_of(unit, role), prefer=prefer)
                if node == NOWHERE:
                    wanted = pods[role] - done
                    node, more = self.donors.make_room(shape, partial(self._may_give, unit), unit.gpu, wanted)
                    givers.update((id(giver), giver) for giver in more)
                if node == NOWHERE:
                    return Lack(Code.NO_ROOM, role=role, placed=done, needed=pods[role])
                take(self.board, unit, role, node, now=False)
        return None

    def _settle_accounts(self, unit: Unit, pods: Sequence[int], givers: dict[int, Unit]) -> Lack | None:
        """What nodes gave may still be too much for a quota, or for what is available: one step of one giver at a time.

        Each turn shrinks someone, so it ends.
        """
        while lack := overdrawn(self.board, unit, pods):
            order = self.donors.order
            able = (one for one in order if self._may_give(unit, one) and can_give(one) and _eases(one, lack))
            giver = next(able, None)
            if giver is None:
                return lack
            giver.open_seats()
            shrink(self.board, giver, giver.size_below(giver.size))
            givers[id(giver)] = giver
            self.donors.changed([giver])
        return None

    def _blocks(self, unit: Unit, lack: Lack) -> bool:
        """Whether later ones have to wait behind it."""
        if self.cycle.blocker is not None or lack.code not in _ABOUT_ROOM:
            return False
        return self.cycle.now - self._since(unit) >= BLOCKS_AFTER and self._could_ever_run(unit)

    def _could_ever_run(self, unit: Unit) -> bool:
        """Whether it would fit if no other job were there."""
        if self._bare is None:
            self._bare = bare_board(self.cycle)
        mark = self._bare.mark()
        lack = place(self._bare, unit, unit.pods_at(unit.floor), now=False, growth=False)
        self._bare.rollback(mark)
        return lack is None

    def _competes(self, unit: Unit, other: Unit) -> bool:
        """Whether both can use the same nodes."""
        allowed = self.cycle.snapshot.allowed
        mine = [allowed[role.shape.where] for role in unit.facts.roles]
        theirs = [allowed[role.shape.where] for role in other.facts.roles]
        return any(any(map(min, one, two)) for one in mine for two in theirs)


def enter(cycle: Cycle, waiting: Sequence[Unit]) -> None:
    """A newcomer enters at the least score among the running, so that an old job is not held down by it for ever."""
    entries = cycle.memory.entries
    if entries:
        for unit in cycle.active:
            unit.entry = entries.get(unit.key, 0.0) if unit.size > 0 else 0.0
    if waiting:
        least = min((unit.past_score for unit in cycle.active if unit.size > 0), default=0.0)
        for unit in waiting:
            unit.entry = max(0.0, least - unit.past_score)


def bare_board(cycle: Cycle) -> Board:
    """The cluster as it would be without any pod of ours."""
    board = Board(cycle.snapshot, cycle.settings, cycle.now)
    for facts in cycle.snapshot.jobs:
        for role, seats in zip(facts.roles, facts.bound, strict=False):
            for node, pods in seats.items():
                board.shift(node, role.returned, role.taxes, pods, pods)
    return board


def _signature(unit: Unit, pods: Sequence[int]) -> _Signature:
    """Gangs that are the same to the board."""
    roles = zip(unit.facts.roles, pods, strict=True)
    shapes = tuple((role.shape.index, count) for role, count in roles if count > 0)
    taxed = any(role.taxes for role in unit.facts.roles)
    return shapes, unit.facts.namespace if taxed else "", any(bool(role.problem) for role in unit.facts.roles)


def _eases(giver: Unit, lack: Lack) -> bool:
    """Whether an instance less helps with quota, which is one namespace's, or with available limits."""
    if lack.code is Code.PROMISED:
        return True
    return giver.role is not None and any(account == lack.account for account, _ in giver.role.taxes)
