"""The cluster in the dry run: what is free on every node now, and what will be free once all that terminates is gone.

Both are kept because growth may only use what is free now, while capacity that is being freed may be reserved for
those who wait for it. A reservation takes from `later` alone; a pod that is asked to leave gives to `later` alone; so
nothing is reserved twice and nothing is used before it is free. Every change is journaled and can be rolled back.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from edl.scheduler.placement.node_index import NodeIndex
from edl.scheduler.placement.resources import Vector
from edl.scheduler.settings import STUCK_AFTER, Settings
from edl.scheduler.snapshot.types import NOWHERE, Charges, Shape, Snapshot

if TYPE_CHECKING:
    from edl.scheduler.unit import Unit


class _PodChange(msgspec.Struct, gc=False):
    """The capacity of pods on a node was given or taken."""

    node: int
    shape: Shape
    charges: Charges
    now: int
    later: int


class _CountChange(msgspec.Struct, gc=False):
    """Something of a unit was counted."""

    counts: dict[Any, int]
    key: object
    by: int


class _SizeChange(msgspec.Struct, gc=False):
    """A unit had this size before."""

    unit: "Unit"
    size: int


class Room:
    """How many pods of a shape each node has capacity for, as of so many alterations; nodes without any are missing."""

    __slots__ = ("as_of", "slots")

    def __init__(self, slots: dict[int, int], as_of: int) -> None:
        self.slots, self.as_of = slots, as_of


class ClusterState:
    def __init__(self, snapshot: Snapshot, settings: Settings, now: float) -> None:
        self.snapshot = snapshot
        self.axes = snapshot.axes
        self.free_now: list[Vector] = [node.free for node in snapshot.nodes]
        self.free_later = self.free_now.copy()
        """Per node. A row is replaced, never changed: at first it is the snapshot's own, and most nodes stay so."""
        self.usable: list[bool] = [not node.refusal for node in snapshot.nodes]
        self.by_limits = settings.available == "limits"
        self.capacity = self.total([node.capacity for node in snapshot.nodes])
        self.free_before = self.total(self.free_now)
        free = self.capacity
        committed = snapshot.committed if self.by_limits else [free[axis] - self.free_before[axis] for axis in (0, 1)]
        self.spare_now = [free[0] - committed[0], free[1] - committed[1]]
        self.spare_later = self.spare_now.copy()
        load = settings.load()
        self.idle_reserve = free[0] - free[0] * load.numerator // load.denominator
        self.quota_now = [quota_line.hard - quota_line.used for quota_line in snapshot.quota_lines]
        self.quota_later = self.quota_now.copy()
        self.counts = [dict(counter.counts) for counter in snapshot.counters]
        self.journal: list[_PodChange | _CountChange | _SizeChange] = []
        self.backoff: dict[int, float] = {}  # shape that kube-scheduler refused: until when
        self.node_index = NodeIndex(self)
        self._allowed: dict[int, list[int]] = {}
        self.altered: list[int] = []  # nodes whose free capacity changed, in order: what is kept of them is renewed
        self.rooms: dict[tuple[int, bool], Room] = {}
        self.most_together: dict[int, int] = {}  # shape: pods of it that the largest node holds
        self._expect_terminating(now)

    def total(self, rows: Sequence[Sequence[int]]) -> list[int]:
        """Over usable nodes."""
        width = len(self.axes.names)
        columns = list(zip(*itertools.compress(rows, self.usable), strict=True))
        return [sum(column) for column in columns] or [0] * width

    def _expect_terminating(self, now: float) -> None:
        """Counts on the capacity of terminating pods, unless they are stuck."""
        for pod in self.snapshot.terminating:
            if now > pod.until + STUCK_AFTER:
                continue
            for quota_line, amount in pod.charges:
                self.quota_later[quota_line] += amount
            if pod.node == NOWHERE:
                continue
            _give(self.free_later, pod.node, enumerate(pod.requests), 1)
            if self.usable[pod.node]:
                given = pod.limits if self.by_limits else pod.requests
                self.spare_later[0] += given[0]
                self.spare_later[1] += given[1]

    def adjust(self, node: int, shape: Shape, charges: Charges, now: int, later: int) -> None:
        """Gives (positive) or takes (negative) the capacity of so many pods, now and later."""
        self.journal.append(_PodChange(node, shape, charges, now, later))
        self._apply(node, shape, charges, now, later)

    def _apply(self, node: int, shape: Shape, charges: Charges, now: int, later: int) -> None:
        for quota_line, amount in charges:
            self.quota_now[quota_line] += amount * now
            self.quota_later[quota_line] += amount * later
        if node == NOWHERE:
            return
        if now:
            _give(self.free_now, node, shape.needs, now)
        if later:
            _give(self.free_later, node, shape.needs, later)
        if self.usable[node]:
            cpu, memory = shape.limits if self.by_limits else shape.requests[:2]
            self.spare_now[0] += cpu * now
            self.spare_now[1] += memory * now
            self.spare_later[0] += cpu * later
            self.spare_later[1] += memory * later
        for counter in shape.counted:
            self._count(counter, node, -later)
        self.altered.append(node)
        self.node_index.touched.add(node)
        if now > 0 or later > 0:
            self.node_index.gained.append(node)

    def _count(self, counter: int, node: int, by: int) -> None:
        domain = self.snapshot.counters[counter].domains[node]
        if domain is not None:
            counts = self.counts[counter]
            counts[domain] = counts.get(domain, 0) + by

    def count(self, counts: dict[Any, int], key: object, by: int) -> None:
        """Counts something of a unit, so that it is rolled back with the capacity."""
        self.journal.append(_CountChange(counts, key, by))
        counts[key] = counts.get(key, 0) + by

    def resize(self, unit: "Unit", size: int) -> None:
        self.journal.append(_SizeChange(unit, unit.size))
        unit.size = size

    def mark(self) -> int:
        return len(self.journal)

    def rollback(self, mark: int) -> None:
        journal = self.journal
        while len(journal) > mark:
            entry = journal.pop()
            if isinstance(entry, _PodChange):
                self._apply(entry.node, entry.shape, entry.charges, -entry.now, -entry.later)
            elif isinstance(entry, _CountChange):
                entry.counts[entry.key] -= entry.by
            else:
                entry.unit.size = entry.size

    def fits(self, node: int, shape: Shape, now: bool) -> bool:
        row = self.free_later[node]
        for axis, amount in shape.needs:
            if row[axis] < amount:
                return False
        if now:
            row = self.free_now[node]
            for axis, amount in shape.needs:
                if row[axis] < amount:
                    return False
        return not shape.rules or self._rules_allow(node, shape)

    def _rules_allow(self, node: int, shape: Shape) -> bool:
        """Whether pod affinity, anti-affinity and topology spread allow the node."""
        for rule in shape.rules:
            domain = self.snapshot.counters[rule.counter].domains[node]
            counts = self.counts[rule.counter]
            here = counts.get(domain, 0) if domain is not None else 0
            if rule.kind == "anti-affinity":
                if here > 0:
                    return False
            elif domain is None:
                return False
            elif rule.kind == "affinity":
                if here == 0 and not (rule.counts_itself and not any(counts.values())):
                    return False
            elif here + rule.counts_itself - self._fewest(rule.counter) > rule.skew:
                return False
        return True

    def _fewest(self, counter: int) -> int:
        domains = self.snapshot.counters[counter].domains
        known = {domains[node] for node, usable in enumerate(self.usable) if usable}
        return min((self.counts[counter].get(domain, 0) for domain in known if domain is not None), default=0)

    def allowed(self, node: int, shape: Shape) -> bool:
        return self.usable[node] and self.snapshot.allowed[shape.node_match][self.snapshot.nodes[node].kind]

    def allowed_nodes(self, node_match: int) -> list[int]:
        """The usable nodes that a `NodeMatch`, given by its index, allows."""
        found = self._allowed.get(node_match)
        if found is None:
            kinds = self.snapshot.allowed[node_match]
            nodes = self.snapshot.nodes
            found = [node for node, usable in enumerate(self.usable) if usable and kinds[nodes[node].kind]]
            self._allowed[node_match] = found
        return found

    def find(self, shape: Shape, *, now: bool, guard: Shape | None = None, prefer: int = NOWHERE) -> int:
        """A node for one pod, or NOWHERE. `guard`: a shape for which as much capacity as possible is to be left."""
        if prefer != NOWHERE and self.allowed(prefer, shape) and self.fits(prefer, shape, now):
            return prefer
        return self.node_index.find(shape, now, guard)

    def commits(self, shape: Shape) -> Sequence[int]:
        """What a pod takes of the available CPU and memory (decision 19)."""
        return shape.limits if self.by_limits else shape.requests

    def name(self, node: int) -> str:
        return self.snapshot.nodes[node].name if node != NOWHERE else ""


def _give(rows: list[Vector], node: int, amounts: Iterable[tuple[int, int]], pods: int) -> None:
    row = list(rows[node])
    for axis, amount in amounts:
        row[axis] += amount * pods
    rows[node] = tuple(row)
