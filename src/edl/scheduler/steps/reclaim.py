"""Reclaims capacity: chooses the instances that leave, and their node, so that a pod that does not fit will fit.

For each shape every node makes an offer: who would have to leave there. The best offer is taken: of the lowest tier; of
one donor rather than several, for every job that is rescaled stops for a moment; of a donor that the policy takes from
first, as far as that matters; of the fewest instances. No more is taken than the pod needs. Nobody goes below its
minimum; paused jobs give nothing.

Offers are kept in a heap per shape and checked again only when they come up, or when their node has gained
capacity.
"""

import heapq
from collections.abc import Callable, Iterable
from typing import Any

from edl.scheduler.placement.cluster_state import ClusterState
from edl.scheduler.placement.placements import shrink
from edl.scheduler.placement.resources import Vector
from edl.scheduler.policies.policy import Policy
from edl.scheduler.policies.score_tree import ScoreTree
from edl.scheduler.reasons.codes import Blocker, Code
from edl.scheduler.snapshot.types import NOWHERE, Shape
from edl.scheduler.unit import PlacementState, Unit

SHAPES = 64  # capacity is reclaimed for so many shapes in a cycle, in the order of their turns: offers cost time
MayGive = Callable[[Unit], bool]
Tier = Callable[[Unit], tuple[int, ...]]
_STATES = tuple(PlacementState)
_Key = tuple[Any, ...]
_Chosen = list[tuple[Unit, int]]


class Reclaimer:
    """The units that can give instances, by node, and the offers of nodes to every shape."""

    def __init__(
        self, cluster: ClusterState, units: Iterable[Unit], policy: Policy, tier: Tier = lambda unit: ()
    ) -> None:
        self.cluster = cluster
        self.policy = policy
        self.tier = tier
        self.by_node: dict[int, list[Unit]] = {}
        self._units = [unit for unit in units if can_give(unit)]
        for unit in self._units:
            for node in instances_by_node(unit):
                self.by_node.setdefault(node, []).append(unit)
        self.can_give_again: list[int] = []
        self._order: ScoreTree | None = None
        self._offers: dict[tuple[int, object], Offers] = {}

    @property
    def order(self) -> ScoreTree:
        """The order of donors if nodes do not matter."""
        if self._order is None:
            order = self.policy.giving_order
            self._order = ScoreTree(lambda unit: (self.tier(unit), *order(unit)), filter(can_give, self._units))
        return self._order

    def changed(self, units: Iterable[Unit]) -> None:
        """Their sizes have changed; perhaps they can give again what they could not."""
        for unit in units:
            if self._order is not None:
                if unit in self._order:
                    self._order.remove(unit)
                if can_give(unit):
                    self._order.add(unit)
            self.can_give_again += instances_by_node(unit)

    def reclaim(self, shape: Shape, may_give: MayGive, among: object, wanted: int = 1) -> tuple[int, list[Unit]]:
        """A node where a pod of the shape fits once the units returned have shrunk, which they have; or NOWHERE.

        `among`: names the donors that `may_give` allows. `wanted`: so many pods of the shape are waiting; a node that
        serves more of them at once is better.
        """
        offers = self._offers.get((shape.index, among))
        if offers is None:
            if len(self._offers) >= SHAPES:
                return NOWHERE, []
            offers = self._offers[shape.index, among] = Offers(self, shape, may_give, wanted)
        node, donors = offers.take(wanted)
        self.changed(donors)
        return node, donors


class Offers:
    """The offers of all nodes to one shape, best first."""

    def __init__(self, reclaimer: Reclaimer, shape: Shape, may_give: MayGive, wanted: int) -> None:
        self.reclaimer = reclaimer
        self.cluster = reclaimer.cluster
        self.shape = shape
        self.may_give = may_give
        self.wanted = wanted
        self.seen = len(self.cluster.node_index.gained), len(reclaimer.can_give_again)
        allowed = self.cluster.allowed
        offers = (self.offer(node) for node in reclaimer.by_node if allowed(node, shape))
        self.heap = [(key, node) for key, node, _ in filter(None, offers)]
        heapq.heapify(self.heap)

    def take(self, wanted: int) -> tuple[int, list[Unit]]:
        """Takes the best offer that still holds."""
        self.wanted = wanted
        self._refresh()
        heap = self.heap
        while heap:
            key, node = heap[0]
            offer = self.offer(node)
            if offer is None or (offer[0] == key and not take_from(self.cluster, offer[2], node, self.shape)):
                heapq.heappop(heap)
            elif offer[0] != key:
                heapq.heapreplace(heap, (offer[0], node))
            else:
                return node, [unit for unit, _ in offer[2]]
        return NOWHERE, []

    def _refresh(self) -> None:
        """Where capacity was gained, or donors can give again, an offer may have become better."""
        gained, can_give_again = self.cluster.node_index.gained, self.reclaimer.can_give_again
        if self.seen == (len(gained), len(can_give_again)):
            return
        for node in {*gained[self.seen[0] :], *can_give_again[self.seen[1] :]}:
            if node in self.reclaimer.by_node and self.cluster.allowed(node, self.shape):
                offer = self.offer(node)
                if offer is not None:
                    heapq.heappush(self.heap, (offer[0], node))
        self.seen = len(gained), len(can_give_again)

    def offer(self, node: int) -> tuple[_Key, int, _Chosen] | None:
        """The donors that would leave this node for the shape, with the sort key of the offer."""
        units = [unit for unit in self.reclaimer.by_node[node] if can_give(unit) and self.may_give(unit)]
        best: tuple[_Key, int, _Chosen] | None = None
        for unit in units:
            count = leavers_needed(self.cluster, node, self.shape, unit)
            if 0 < count <= min(instances_at(unit, node), unit.size - unit.floor):
                key = self._key(node, unit, count)
                if best is None or key < best[0]:
                    best = key, node, [(unit, count)]
        return best or self._from_several(node, units)

    def _key(self, node: int, unit: Unit, count: int) -> _Key:
        policy = self.reclaimer.policy
        fitting = _fitting_after(self.cluster, node, self.shape, unit, count, self.wanted)
        rank = (
            policy.giving_class(unit),
            count,
            -fitting,
            policy.giving_order(unit),
            self.cluster.free_later[node][0],
            node,
        )
        return self.reclaimer.tier(unit), 1, rank

    def _from_several(self, node: int, units: list[Unit]) -> tuple[_Key, int, _Chosen] | None:
        """Cheapest first, until it fits."""
        reclaimer, row = self.reclaimer, self.cluster.free_later[node]
        able = [(unit, min(instances_at(unit, node), unit.size - unit.floor)) for unit in units]
        for axis, amount in self.shape.needs:
            freed = [most * unit.role.returned.requests[axis] for unit, most in able if unit.role is not None]
            if row[axis] + sum(freed) < amount:
                return None
        able.sort(key=lambda one: (reclaimer.tier(one[0]), reclaimer.policy.giving_order(one[0])))
        chosen = _choose(row, self.shape, able)
        if not chosen:
            return None
        total = sum(count for _, count in chosen)
        key = max(reclaimer.tier(unit) for unit, _ in chosen), len(chosen) + 1, ((total, node),)
        return key, node, chosen


def can_give(unit: Unit) -> bool:
    facts = unit.facts
    return unit.size > unit.floor and facts.state == "active" and not facts.pause and not unit.incomplete


def instances_by_node(unit: Unit) -> dict[int, int]:
    """Its instances, by node."""
    facts = unit.facts
    if not unit.placements:
        return dict(facts.bound[facts.lead]) if facts.bound else {}
    found: dict[int, int] = {}
    for (node, _), pods in unit.placements[facts.lead].items():
        if pods > 0 and node != NOWHERE:
            found[node] = found.get(node, 0) + pods
    return found


def instances_at(unit: Unit, node: int) -> int:
    facts = unit.facts
    if not unit.placements:
        return facts.bound[facts.lead].get(node, 0)
    placements = unit.placements[facts.lead]
    return sum([placements.get((node, state), 0) for state in _STATES])


def leavers_needed(cluster: ClusterState, node: int, shape: Shape, unit: Unit) -> int:
    """How many of the unit's instances must leave the node for the shape to fit; 0 if that does not help."""
    if node == NOWHERE or unit.role is None:
        return 0
    row, freed, count = cluster.free_later[node], unit.role.returned.requests, 0
    for axis, amount in shape.needs:
        gap = amount - row[axis]
        if gap > 0:
            if not freed[axis]:
                return 0
            count = max(count, -(-gap // freed[axis]))
    return count


def _fitting_after(cluster: ClusterState, node: int, shape: Shape, unit: Unit, count: int, wanted: int) -> int:
    row = cluster.free_later[node]
    freed = unit.role.returned.requests if unit.role is not None else ()
    return min(wanted, *((row[axis] + count * freed[axis]) // amount for axis, amount in shape.needs))


def _choose(row: Vector, shape: Shape, donors: _Chosen) -> _Chosen:
    """Cheapest first until it fits, then without those that turn out not to be needed, dearest first; or nothing."""
    gaps = {axis: amount - row[axis] for axis, amount in shape.needs if amount > row[axis]}
    chosen: _Chosen = []
    for unit, most in donors:
        freed = unit.role.returned.requests if unit.role is not None else ()
        useful = [-(-gap // freed[axis]) for axis, gap in gaps.items() if gap > 0 and freed[axis] > 0]
        if useful and most > 0:
            count = min(most, max(useful))
            chosen.append((unit, count))
            gaps = {axis: gap - count * freed[axis] for axis, gap in gaps.items()}
    if not gaps or any(gap > 0 for gap in gaps.values()):
        return []
    for position in reversed(range(len(chosen))):
        unit, count = chosen[position]
        freed = unit.role.returned.requests if unit.role is not None else ()
        while count > 0 and all(gap + freed[axis] <= 0 for axis, gap in gaps.items()):
            count -= 1
            gaps = {axis: gap + freed[axis] for axis, gap in gaps.items()}
        chosen[position] = (unit, count)
    return [(unit, count) for unit, count in chosen if count > 0]


def take_from(cluster: ClusterState, donors: _Chosen, node: int, shape: Shape) -> bool:
    """Shrinks the donors by so many instances on this node; False, and nothing has changed, if that does not help."""
    mark = cluster.mark()
    for unit, count in donors:
        size = unit.size_within(unit.size - count)
        if size > unit.size - count:
            cluster.rollback(mark)
            return False
        unit.open_placements()
        shrink(cluster, unit, size, prefer=node)
    if cluster.fits(node, shape, False):
        return True
    cluster.rollback(mark)
    return False


def eases(donor: Unit, blocker: Blocker) -> bool:
    """Whether an instance less helps with quota, which is one namespace's, or with available limits."""
    if blocker.code is Code.PROMISED:
        return True
    return donor.role is not None and any(quota_line == blocker.quota_line for quota_line, _ in donor.role.charges)
