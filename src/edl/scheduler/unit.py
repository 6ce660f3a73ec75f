"""The scheduling unit of the CFS design: one job in the dry run, whatever its kind.

A unit has a size, which a plan changes, and placements: the nodes where its pods are, or where the plan puts them.
"""

import bisect
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import partial

import msgspec

from edl.scheduler.reasons.codes import Blocker, Code
from edl.scheduler.role_grants import ANY, Pods, granted_at, in_force_of, pods_within
from edl.scheduler.settings import FREEZE, FREEZE_PAUSES, INTERVAL, PAYS_WITHIN, Weights
from edl.scheduler.snapshot.types import JobFacts, RoleFacts, UnboundPod

THOUSAND = 1000


class PlacementState(IntEnum):
    """States of a placement, in the order of what it costs to remove it."""

    NEW = 0  # not created yet, on capacity that is free now
    DEFERRED = 1  # not bound yet, on capacity that terminating pods will free
    UNBOUND = 2  # created, without a node; its placement is a guess
    BOUND = 3  # on its node, until it is gone


Placements = dict[tuple[int, PlacementState], int]


class LastDecision(msgspec.Struct, gc=False):
    """The decision on a unit in the last plan: shared by the units of all plans that are made of the same facts."""

    decision: object = None


class Unit:
    """Attributes that most units never change are defaults of the class: there may be ten thousand units in a cycle."""

    entry: float = 0.0
    sizes: tuple[int, ...] = ()
    """The only sizes that it may have, ascending; empty: any."""
    placements: tuple[Placements, ...] = ()
    existing: tuple[dict[int, int], ...] = ()
    leavers: tuple[dict[str, int], ...] = ()
    unbound: tuple[list[UnboundPod], ...] = ()
    reservations: dict[tuple[int, int], int]
    """Role and node: pods for which capacity is being freed there."""
    reserved_nodes: Mapping[int, list[int]] = {}
    """Role to nodes: what the last plan reserved for it."""
    incomplete: bool = False
    """Pods of its minimum have no placement."""
    reserved: bool = False
    """But capacity for them is being freed."""
    moved: bool = False
    """It was shrunk, or its user has set its size: it does not grow in this cycle."""
    edited: bool = False
    """Its sizes were edited after its last change of size (decision 24)."""
    granted: Pods | None = None
    """Per role: the most that it may have, if it asks for more of some role than it was granted."""
    in_force: Pods | None = None
    """Per role: what is in force of the pods granted, if fewer: the others have not run yet."""
    more: str = ""
    """The pods of other roles that this cycle grants it in addition."""
    role_blocker: Blocker | None = None
    """What keeps those from it for which it asks in addition."""
    admitted: bool = False
    grew: bool = False
    optimistic: bool = False
    promised: int = 0
    wish: int = 0
    """The size that the division of capacity would give it (`goodput`)."""
    worth: float = 1.0
    """Of a unit of its progress, at today's price of capacity (`goodput`)."""
    because: str = ""
    """Why it grew, where the policy says more than that there was room."""
    shrink_reason: Code | None = None
    """What it was shrunk for; `shrink_causes` says for whom."""
    shrink_causes: Sequence[str] = ()
    blocker: Blocker | None = None

    def __init__(self, facts: JobFacts, now: float, resource_score: int) -> None:
        self.facts = facts
        self.key: str = facts.key
        self.priority: int = facts.priority
        self.resource_score: int = resource_score  # in thousandths
        self.now = now
        self.initial_size: int = facts.current if facts.target is None else facts.target
        """The target of the last plan; before the first one, the pods that run."""
        self.size: int = self.initial_size
        """The target that this cycle has come to so far; at its end it is `Decision.target`."""
        if facts.sizes:
            self.sizes = tuple([size for size in facts.sizes if facts.min <= size <= facts.max])
        bound = facts.pin or facts.fixed or self.sizes
        self.minimum, self.ceiling = self._bounds() if bound else (facts.min, facts.max)
        """The least size that its user wants, and the greatest."""
        self.minimum_in_force: int = self._minimum_in_force()
        self.floor: int = self.minimum_in_force
        """The least size that holds now: nobody shrinks it below that."""
        self.role: RoleFacts | None = facts.roles[facts.lead] if facts.roles else None
        self.gpu: bool = facts.gpu
        self.pods_at: Callable[[int], tuple[int, ...]] = facts.pods_at
        if facts.granted is not None and facts.target and facts.state == "active":
            self._hold_back()
        self.at_rest: bool = self._at_rest()
        """Exactly the pods of its last target are there: nothing to hold."""
        self.tied: bool = bool(facts.pause or facts.pin or facts.fixed)
        """Its user has written that it keeps its size."""
        self.asks: bool = bool(facts.request or facts.obeyed) or facts.held is not None
        """Its user has asked for a size, now or earlier."""
        self.last: LastDecision = LastDecision()

    def _bounds(self) -> tuple[int, int]:
        """The least and the greatest size. A pin makes them one; a list of sizes may narrow them."""
        facts = self.facts
        if facts.pin:
            return facts.start, facts.start
        if facts.fixed:
            fixed = self.initial_size or facts.start
            return fixed, fixed
        return self.sizes[0], self.sizes[-1]

    def _minimum_in_force(self) -> int:
        """A minimum that was raised holds once it was reached; till then the old one does, if the job has a size."""
        facts, minimum = self.facts, self.minimum
        if facts.running + facts.done >= minimum or not self.initial_size or facts.target is None:
            return minimum
        known = facts.target if facts.pin or facts.minimum is None else facts.minimum
        return min(minimum, known)

    def _hold_back(self) -> None:
        """What it asks for of other roles beyond its grant waits, as a raised minimum does."""
        most = granted_at(self.facts, self.initial_size)
        if most is not None:
            self.limit_roles(most)
        self.in_force = in_force_of(self.facts, self.pods_at(self.initial_size))

    def limit_roles(self, most: Pods) -> None:
        self.granted, self.pods_at = most, partial(pods_within, self.facts.pods_at, most)

    def fall_back(self) -> bool:
        """To what is in force of its other roles: those that were granted in addition wait again."""
        if self.in_force is None:
            return False
        held, granted, lead = self.in_force, self.pods_at(self.size), self.facts.lead
        self.limit_roles(
            tuple([ANY if role == lead or have >= granted[role] else have for role, have in enumerate(held)])
        )
        self.in_force = None
        return True

    def grant_roles(self) -> None:
        """All that it asks for of other roles."""
        self.in_force = self.in_force or self.pods_at(self.initial_size)
        self.granted, self.pods_at = None, self.facts.pods_at

    def _at_rest(self) -> bool:
        facts, size = self.facts, self.initial_size
        if facts.state != "active":
            return facts.state == "invalid"
        if facts.unbound or facts.done or not self.floor <= size <= self.ceiling:
            return False
        return facts.live == self.pods_at(size) and (not self.sizes or size in self.sizes)

    @property
    def served(self) -> float:
        """Seconds that its instances have run."""
        facts = self.facts
        if not facts.running:
            return facts.pod_seconds
        return facts.pod_seconds + max(0.0, facts.running * self.now - facts.started_sum / 1000)

    @property
    def raising(self) -> bool:
        """Its minimum was raised above its size: what it has goes on, the rest waits like a newcomer."""
        return 0 < self.size < self.minimum and self.floor < self.minimum

    @property
    def lacks_roles(self) -> bool:
        """It has its minimum but for pods of other roles, for which it asks in addition."""
        return self.granted is not None and self.size > 0 and not self.raising

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
        index = bisect.bisect_right(sizes, size)
        return sizes[index] if index < len(sizes) and sizes[index] <= self.ceiling else size

    def size_below(self, size: int) -> int:
        if size <= self.floor:
            return size
        index = bisect.bisect_left(self.sizes, size) - 1
        return max(self.sizes[index], self.floor) if index >= 0 else max(size - 1, self.floor)

    def size_within(self, size: int) -> int:
        """The largest size it may have that is not above this one; its floor if there is none."""
        size = min(size, self.ceiling)
        index = bisect.bisect_right(self.sizes, size) - 1
        return max(self.sizes[index] if index >= 0 else size, self.floor)

    def frozen_for(self, now: float) -> float:
        """Seconds until it may be rescaled without need (decision 24)."""
        facts = self.facts
        if facts.last_scale_time is None or self.edited:
            return 0.0
        window = facts.freezing_window
        if window is None:
            window = max(FREEZE, FREEZE_PAUSES * (facts.rescale_seconds or 0.0))
        return max(0.0, facts.last_scale_time + window - now)

    def worthwhile(self) -> int:
        """The fewest instances that a change of size must move to win back its pause in time."""
        pause = self.facts.rescale_seconds
        if not pause or self.moved or self.grew or self.admitted:
            return 1  # there is none, or it is paid already
        return int(self.size * pause / PAYS_WITHIN) + 1

    def note_shrink(self, reason: Code, cause: str) -> None:
        """Records that it was shrunk, and for whom."""
        self.moved = True
        if reason is not self.shrink_reason:
            self.shrink_reason, self.shrink_causes = reason, ()
        if cause not in self.shrink_causes:
            self.shrink_causes = (*self.shrink_causes, cause)

    def open_placements(self) -> None:
        """Copies the placements for changes; most units are never touched and need none of their own."""
        if not self.placements:
            facts = self.facts
            self.reservations = {}
            self.placements = tuple(
                {(node, PlacementState.BOUND): pods for node, pods in bound.items()} for bound in facts.bound
            )
            self.existing = tuple({} for _ in facts.roles)
            self.leavers = tuple({} for _ in facts.roles)
            self.unbound = tuple(list(pods) for pods in facts.unbound) or tuple([] for _ in facts.roles)


def raise_floor(unit: Unit) -> None:
    """What was granted for a raised minimum is not taken back, though it is not reached yet."""
    if unit.size >= unit.minimum:
        unit.floor = unit.minimum


def resource_score(gpus: int, millicores: int, memory: int, weights: Weights) -> int:
    """100 per GPU, 1 per core, 0.1 per GiB, at least 1, unless weighted otherwise (decision 21); in thousandths."""
    score = weights.gpu * gpus + weights.cpu * millicores / THOUSAND + weights.memory_gib * memory / 2**30
    return max(THOUSAND, round(THOUSAND * score))
