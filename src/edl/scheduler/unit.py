"""The scheduling unit of the CFS design: one job in the dry run, whatever its kind.

A unit has an expected size, which a plan moves, and seats: the nodes where its pods are, or where the plan puts them.
"""

import bisect
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum

from edl.scheduler.facts import JobFacts, RoleFacts, Unbound
from edl.scheduler.reasons import Code, Lack
from edl.scheduler.settings import FREEZE, FREEZE_PAUSES, INTERVAL, PAYS_WITHIN


class Sort(IntEnum):
    """Sorts of seats, in the order of what it costs to give them up."""

    FRESH = 0  # not created yet, on room that is free now
    COMING = 1  # not bound yet, on room that others are about to leave
    UNBOUND = 2  # created, without a node; its seat is a guess
    BOUND = 3  # on its node, until it is gone


Seats = dict[tuple[int, Sort], int]


class Unit:
    """Attributes that most units never change are defaults of the class: there may be ten thousand units in a cycle."""

    entry: float = 0.0
    seats: tuple[Seats, ...] = ()
    exist: tuple[dict[int, int], ...] = ()
    leavers: tuple[dict[str, int], ...] = ()
    loose: tuple[list[Unbound], ...] = ()
    claims: dict[tuple[int, int], int]
    """Role and node: pods for which room is on its way."""
    kept: Mapping[int, list[int]] = {}
    """Role to nodes: what the last plan claimed for it."""
    short: bool = False
    """Pods of its minimum have no seat."""
    reserved: bool = False
    """But room for them is on its way."""
    moved: bool = False
    """It was shrunk, or its user has spoken: it does not grow in this cycle."""
    admitted: bool = False
    grew: bool = False
    optimistic: bool = False
    promised: int = 0
    why: Code | None = None
    """For what it was shrunk; for whom, is in `cause`."""
    cause: Sequence[str] = ()
    lack: Lack | None = None

    def __init__(self, facts: JobFacts, now: float, resource_score: int) -> None:
        self.facts = facts
        self.key: str = facts.key
        self.priority: int = facts.priority
        self.resource_score: int = resource_score  # in thousandths
        self.served: float = facts.pod_seconds
        if facts.running:
            self.served += max(0.0, facts.running * now - facts.started_sum / 1000)
        self.base: int = facts.current if facts.granted is None else facts.granted
        self.size: int = self.base
        self.sizes = tuple([size for size in facts.sizes if facts.min <= size <= facts.max]) if facts.sizes else ()
        self.floor, self.ceiling = self._bounds()
        self.role: RoleFacts | None = facts.roles[facts.scaled] if facts.roles else None
        self.gpu: bool = facts.gpu
        self.pods_at: Callable[[int], tuple[int, ...]] = facts.pods_at

    def _bounds(self) -> tuple[int, int]:
        """The least and the greatest size; a pin makes them one, and a list of sizes draws them in where it can."""
        facts = self.facts
        if facts.pinned:
            return facts.start, facts.start
        if not facts.elastic:
            fixed = self.base or facts.start
            return fixed, fixed
        return (self.sizes[0], self.sizes[-1]) if self.sizes else (facts.min, facts.max)

    @property
    def min_instances(self) -> int:
        return self.floor

    @property
    def max_instances(self) -> int:
        return self.ceiling

    @property
    def expected(self) -> int:
        return self.size

    @property
    def running(self) -> int:
        return self.facts.running

    @property
    def obj(self) -> object:
        return self.facts.obj

    @property
    def score(self) -> float:
        """Weighted running time, each planned pod counted as having run one more interval (decision 21)."""
        weight, priority = self.resource_score, self.priority
        return self.entry + weight * self.served / priority + weight * INTERVAL * self.size / priority

    @property
    def past_score(self) -> float:
        return self.entry + self.resource_score * self.served / self.priority

    @property
    def share(self) -> float:
        return self.size * self.resource_score / self.priority

    @property
    def weight(self) -> float:
        """What one instance adds to the share."""
        return self.resource_score / self.priority

    @property
    def fulfilment(self) -> float:
        span = self.ceiling - self.floor
        return (self.size - self.floor) / span if span > 0 else 1.0

    @property
    def tie(self) -> tuple[int, float, str, str, str]:
        """Higher priority, older, name."""
        facts = self.facts
        return -self.priority, facts.created, facts.namespace, facts.name, facts.kind

    def size_above(self, size: int) -> int:
        """The next size it may have, or the same if there is none."""
        sizes = self.sizes
        if size < self.floor:
            return self.floor
        if not sizes or size >= self.ceiling:
            return min(size + 1, max(self.ceiling, size))
        place = bisect.bisect_right(sizes, size)
        return sizes[place] if place < len(sizes) and sizes[place] <= self.ceiling else size

    def size_below(self, size: int) -> int:
        if size <= self.floor:
            return size
        place = bisect.bisect_left(self.sizes, size) - 1
        return max(self.sizes[place], self.floor) if place >= 0 else max(size - 1, self.floor)

    def size_within(self, size: int) -> int:
        """The largest size it may have that is not above this one; its floor if there is none."""
        size = min(size, self.ceiling)
        place = bisect.bisect_right(self.sizes, size) - 1
        return max(self.sizes[place] if place >= 0 else size, self.floor)

    def frozen_for(self, now: float) -> float:
        """Seconds until it may be rescaled without need (decision 24)."""
        facts = self.facts
        if facts.last_scale is None:
            return 0.0
        window = facts.window
        if window is None:
            window = max(FREEZE, FREEZE_PAUSES * (facts.rescale_seconds or 0.0))
        return max(0.0, facts.last_scale + window - now)

    def worthwhile(self) -> int:
        """The fewest instances that a change of size must move to win back its pause in time."""
        pause = self.facts.rescale_seconds
        if not pause or self.moved or self.grew or self.admitted:
            return 1  # there is none, or it is paid already
        return int(self.size * pause / PAYS_WITHIN) + 1

    def gives(self, why: Code, cause: str) -> None:
        """It was shrunk, and for whom."""
        self.moved = True
        if why is not self.why:
            self.why, self.cause = why, ()
        if cause not in self.cause:
            self.cause = (*self.cause, cause)

    def open_seats(self) -> None:
        """Make the seats changeable; most units are never touched and need none of their own."""
        if not self.seats:
            facts = self.facts
            self.claims = {}
            self.seats = tuple({(node, Sort.BOUND): pods for node, pods in seats.items()} for seats in facts.bound)
            self.exist = tuple({} for _ in facts.roles)
            self.leavers = tuple({} for _ in facts.roles)
            self.loose = tuple(list(pods) for pods in facts.unbound) or tuple([] for _ in facts.roles)
