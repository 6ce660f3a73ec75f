"""Admits minima before any growth: a job gets its whole minimum, or waits with a reason (decisions 19, 20, 22).

Jobs that run below their minimum come first, then those that wait, by the policy's order. One that has waited five
minutes goes before all others but those of a higher priority, and while it cannot be served it keeps what it lacks
(`head_of_line`). Capacity is reclaimed from jobs above their minimum; a GPU job gives only to a GPU job. A gang for
which capacity is still being freed is not admitted yet: the capacity is reserved for it.
Pods of other roles that a running job asks for in addition are such a gang; its own instances may go for them, too.

A gang that failed fails again for every later job of the same needs in this cycle, since capacity only gets scarcer:
the blocker is remembered.
"""

import bisect
import math
from collections.abc import Sequence
from functools import partial

from msgspec import structs

from edl.scheduler.cycle import Cycle
from edl.scheduler.missing_pods import makes_own_room, missing_pods, missing_text
from edl.scheduler.placement.compact import roomy_nodes
from edl.scheduler.placement.gang import guard_of, hardest_first, overcommitted, place_gang, place_or_reserve
from edl.scheduler.placement.placements import complete, placed_pods, shrink
from edl.scheduler.reasons.codes import Blocker, Code
from edl.scheduler.reasons.shortage import blocker_message, request_text
from edl.scheduler.settings import KEEPS_AFTER
from edl.scheduler.snapshot.types import NOWHERE
from edl.scheduler.steps.head_of_line import Line
from edl.scheduler.steps.hold import place_up_to
from edl.scheduler.steps.reclaim import Reclaimer, can_give, eases
from edl.scheduler.steps.refused_grants import refused_blocker
from edl.scheduler.unit import Unit

_ABOUT_CAPACITY = (Code.NO_ROOM, Code.PROMISED)
_MAYBE_KEPT = (*_ABOUT_CAPACITY, Code.QUOTA)

_Signature = tuple[tuple[tuple[int, int], ...], str, bool]


def admit(cycle: Cycle) -> None:
    Admission(cycle).run()


class Admission:
    def __init__(self, cycle: Cycle) -> None:
        self.cycle = cycle
        self.cluster = cycle.cluster
        self.failed: dict[_Signature, Blocker] = {}
        self._reclaimer: Reclaimer | None = None
        self.line = Line(cycle)
        self.long_waiting: list[int] = []
        """The priorities of those that have waited long, ascending."""

    def run(self) -> None:
        self.cycle.messages.clear()
        active = self.cycle.active
        lacking = [unit for unit in active if unit.incomplete or unit.size < unit.minimum or unit.granted is not None]
        lacking = [unit for unit in lacking if not unit.facts.pause]
        for unit in sorted((unit for unit in lacking if unit.incomplete), key=lambda unit: unit.tie):
            self._complete(unit)
        new = [unit for unit in lacking if unit.size == 0 and unit.floor > 0]
        enter(self.cycle, new)
        raising = [unit for unit in lacking if (unit.raising or unit.lacks_roles) and not unit.incomplete]
        waiting = new + raising
        self.long_waiting = sorted({unit.priority for unit in waiting if self._waited_long(unit)})
        for unit in sorted(waiting, key=self._turn):
            self._admit(unit)
        self.line.release()

    def _turn(self, unit: Unit) -> tuple[object, ...]:
        """One that has waited long goes before all others but those of a higher priority."""
        band = len(self.long_waiting) - bisect.bisect_left(self.long_waiting, unit.priority)
        if self._waited_long(unit):
            return band, 0, self._since(unit), unit.facts.created, unit.tie
        return band, 1, not unit.gpu, self.cycle.policy.serving_order(unit), unit.tie

    def _waited_long(self, unit: Unit) -> bool:
        return self.cycle.now - self._since(unit) >= KEEPS_AFTER

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
        place_up_to(self.cluster, unit, unit.pods_at(unit.size))
        unit.incomplete = not complete(unit, unit.size)
        if not unit.incomplete:
            return
        pods = [wanted - placed_pods(unit, role) for role, wanted in enumerate(unit.pods_at(unit.size))]
        unit.blocker = self._capacity_for(unit, [max(0, count) for count in pods])
        unit.reserved = unit.blocker.code is Code.ROOM_COMING

    def _admit(self, unit: Unit) -> None:
        if unit.lacks_roles:
            unit.role_blocker = self._blocker_of(unit)
        elif blocker := self._blocker_of(unit):
            unit.blocker = blocker

    def _blocker_of(self, unit: Unit) -> Blocker | None:
        """What keeps its gang from it; None if it was granted."""
        if blocker := refused_blocker(self.cycle, unit):
            return blocker
        pods = missing_pods(unit)
        signature = _signature(unit, pods)
        blocker = self.failed.get(signature)
        if blocker is None:
            blocker = self._place_now(unit, pods)
            if blocker is None:
                return None
            blocker = self._capacity_for(unit, pods)
        if blocker.code is Code.ROOM_COMING:
            unit.reserved = True
            return blocker
        if not blocker.message:  # at once: what is free now may be another's by the end of the cycle
            blocker = self._with_message(unit, pods, blocker)
        self.failed[signature] = blocker
        if not unit.size:
            self._wait(unit, blocker)
        return blocker

    def _wait(self, unit: Unit, blocker: Blocker) -> None:
        starts = self._start_without_capacity(unit, blocker)
        if not starts and blocker.code in _ABOUT_CAPACITY and self._waited_long(unit):
            self.line.join(unit, blocker)

    def _with_message(self, unit: Unit, pods: Sequence[int], blocker: Blocker) -> Blocker:
        """With numbers that count what the head of the line keeps as free; if that is all it lacks, it says so."""
        if self.line.heads:
            self.line.release()
            if blocker.code in _MAYBE_KEPT and (head := self._held_back_by(unit, pods)):
                blocker = Blocker(Code.OVERTAKEN, detail=head)
        message = blocker_message(self.cycle, blocker, unit.facts)
        if self.line.heads:
            self.line.keep()
        return structs.replace(blocker, message=message)

    def _held_back_by(self, unit: Unit, pods: Sequence[int]) -> str:
        """The gang but for which it would be admitted, or have capacity reclaimed; what that keeps is released."""
        head = self.line.rival_of(unit, pods)
        if not head:
            return ""
        mark = self.cluster.mark()
        donors: dict[int, Unit] = {}
        helped = place_gang(self.cluster, unit, pods, now=False, growth=False) is None
        helped = helped or not (self._reclaim_nodes(unit, pods, donors) or self._reclaim_limits(unit, pods, donors))
        self.cluster.rollback(mark)
        if donors:
            self.reclaimer.changed(donors.values())
        return head if helped else ""

    def _place_now(self, unit: Unit, pods: Sequence[int]) -> Blocker | None:
        unit.open_placements()
        lead = unit.facts.lead
        if self.cycle.policy.divides and unit.floor < unit.ceiling and unit.role is not None and pods[lead]:
            nodes = roomy_nodes(self.cluster, unit.role.shape, pods[lead], now=True)
            unit.reserved_nodes = unit.reserved_nodes or {lead: nodes}
        blocker = place_gang(self.cluster, unit, pods, now=True, growth=False)
        if blocker is None:
            if unit.size and unit.granted is not None:
                unit.more = missing_text(unit, pods)
                unit.grant_roles()
            self._grant_minimum(unit)
        return blocker

    def _grant_minimum(self, unit: Unit) -> None:
        if unit.size == 0:
            unit.admitted = True
        else:
            unit.grew = True
        if unit.size < unit.minimum:
            unit.floor = unit.minimum
            self.cluster.resize(unit, unit.minimum)
        self.cycle.waiting.pop(unit.key, None)

    def _start_without_capacity(self, unit: Unit, blocker: Blocker) -> bool:
        """Pods are made without capacity: for an autoscaler to see, or optimistically, as the first design had it."""
        refused = blocker.code in (Code.REFUSED, Code.QUOTA, Code.BACKOFF)
        if refused or not (unit.facts.admission == "create" or self.cycle.policy.starts_without_capacity(unit)):
            return False
        self._grant_minimum(unit)
        unit.optimistic = unit.incomplete = True
        return True

    def _capacity_for(self, unit: Unit, pods: Sequence[int]) -> Blocker:
        """Reserves capacity that is being freed, or reclaims it from others: ROOM_COMING, or the blocker."""
        blocker = place_gang(self.cluster, unit, pods, now=False, growth=False)
        if blocker is None:
            return Blocker(Code.ROOM_COMING, detail=": pods are leaving")
        return self._reclaim(unit, pods, blocker)

    def _reclaim(self, unit: Unit, pods: Sequence[int], blocker: Blocker) -> Blocker:
        if blocker.code in (Code.REFUSED, Code.BACKOFF):
            return blocker
        if self.line.heads and blocker.code is Code.PROMISED:
            return blocker  # limits that others could give up are kept for the head of the line
        mark = self.cluster.mark()
        donors: dict[int, Unit] = {}
        found = self._reclaim_nodes(unit, pods, donors) or self._reclaim_limits(unit, pods, donors)
        if found is not None:
            self.cluster.rollback(mark)
            self.reclaimer.changed(donors.values())
            return self._clearest(unit, pods, blocker if found.code is Code.NO_ROOM else found)
        for donor in donors.values():
            own = f"its own {missing_text(unit, pods)}" if donor is unit else ""
            cause = own or f"the minimum of {unit.facts.path} ({self._need(unit)})"
            donor.note_shrink(Code.MADE_ROOM, cause)
        return Blocker(
            Code.ROOM_COMING, detail=f" by {', '.join(sorted(donor.facts.path for donor in donors.values()))}"
        )

    def _clearest(self, unit: Unit, pods: Sequence[int], blocker: Blocker) -> Blocker:
        """Where no node has capacity either, that says more than sums do."""
        if blocker.code is Code.PROMISED:
            for role in hardest_first(unit, pods):
                if self.cluster.find(unit.facts.roles[role].shape, now=False) == NOWHERE:
                    return Blocker(Code.NO_ROOM, role=role, needed=pods[role])
        return blocker

    def _need(self, unit: Unit) -> str:
        if unit.lacks_roles:
            return missing_text(unit, missing_pods(unit))
        name = unit.role.name if unit.role is not None else "pod"
        each = request_text(self.cycle, unit.role.shape) if unit.role is not None else ""
        more = f"{unit.minimum - unit.size} more" if unit.raising else str(unit.minimum)
        return f"{more} x {name}, {each} each"

    @property
    def reclaimer(self) -> Reclaimer:
        if self._reclaimer is None:
            self._reclaimer = Reclaimer(self.cluster, self.cycle.units, self.cycle.policy)
        return self._reclaimer

    def _may_give(self, unit: Unit, donor: Unit) -> bool:
        return (donor is not unit or makes_own_room(unit)) and (unit.gpu or not donor.gpu)

    def _reclaim_nodes(self, unit: Unit, pods: Sequence[int], donors: dict[int, Unit]) -> Blocker | None:
        """A node for every pod, from which others leave where need be."""
        for role in hardest_first(unit, pods):
            shape = unit.facts.roles[role].shape
            reserved_nodes = list(unit.reserved_nodes.get(role, ()))
            for done in range(pods[role]):
                prefer = reserved_nodes.pop() if reserved_nodes else NOWHERE
                node = self.cluster.find(shape, now=False, guard=guard_of(unit, role), prefer=prefer)
                if node == NOWHERE:
                    wanted = pods[role] - done
                    among = unit.gpu, unit.key if unit.lacks_roles else ""  # who may give, depends on it
                    node, more = self.reclaimer.reclaim(shape, partial(self._may_give, unit), among, wanted)
                    donors.update((id(donor), donor) for donor in more)
                if node == NOWHERE:
                    return Blocker(Code.NO_ROOM, role=role, placed=done, needed=pods[role])
                place_or_reserve(self.cluster, unit, role, node, now=False)
        return None

    def _reclaim_limits(self, unit: Unit, pods: Sequence[int], donors: dict[int, Unit]) -> Blocker | None:
        """Pods that fit on nodes may still exceed a quota, or what is available: one step of one donor at a time.

        Each turn shrinks someone, so it ends.
        """
        while blocker := overcommitted(self.cluster, unit, pods):
            order = self.reclaimer.order
            able = (one for one in order if self._may_give(unit, one) and can_give(one) and eases(one, blocker))
            donor = next(able, None)
            if donor is None:
                return blocker
            donor.open_placements()
            shrink(self.cluster, donor, donor.size_below(donor.size))
            donors[id(donor)] = donor
            self.reclaimer.changed([donor])
        return None


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


def _signature(unit: Unit, pods: Sequence[int]) -> _Signature:
    """Equal for gangs that are placed alike."""
    roles = zip(unit.facts.roles, pods, strict=True)
    shapes = tuple((role.shape.index, count) for role, count in roles if count > 0)
    charged = any(role.charges for role in unit.facts.roles)
    return shapes, unit.facts.namespace if charged else "", any(bool(role.problem) for role in unit.facts.roles)
