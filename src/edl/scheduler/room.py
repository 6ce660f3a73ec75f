"""Making room: whose instances leave, and from which node, so that a pod that does not fit will fit.

For each shape every node makes an offer: who would have to leave there. The best offer is taken: of the lowest tier; of
one donor rather than several, for every job that is rescaled stops for a moment; of a donor that the policy takes from
first, as far as that matters; of the fewest instances. No more is taken than the pod needs. Nobody goes below its
minimum; who is paused gives nothing.

Offers are kept in a heap per shape and looked at again only when they come up, or when their node has gained room.
"""

import heapq
from collections.abc import Callable, Iterable
from typing import Any

from edl.scheduler.board import Board
from edl.scheduler.facts import NOWHERE, Shape
from edl.scheduler.policy import Policy
from edl.scheduler.seats import shrink
from edl.scheduler.tree import Tree
from edl.scheduler.unit import Sort, Unit

SHAPES = 64  # so many shapes are made room for in a cycle, in the order of their turns: asking every node has its price
May = Callable[[Unit], bool]
Tier = Callable[[Unit], tuple[int, ...]]
_SORTS = tuple(Sort)
_Key = tuple[Any, ...]
_Chosen = list[tuple[Unit, int]]


class Donors:
    """Units that have something to give, by node."""

    def __init__(self, board: Board, units: Iterable[Unit], policy: Policy, tier: Tier = lambda unit: ()) -> None:
        self.board = board
        self.policy = policy
        self.tier = tier
        self.here: dict[int, list[Unit]] = {}
        self._units = [unit for unit in units if can_give(unit)]
        for unit in self._units:
            for node in instances_by_node(unit):
                self.here.setdefault(node, []).append(unit)
        self.revived: list[int] = []
        self._order: Tree | None = None
        self._offers: dict[tuple[int, object], Offers] = {}

    @property
    def order(self) -> Tree:
        """Who gives first if nodes do not matter."""
        if self._order is None:
            order = self.policy.giving
            self._order = Tree(lambda unit: (self.tier(unit), *order(unit)), filter(can_give, self._units))
        return self._order

    def changed(self, units: Iterable[Unit]) -> None:
        """Their sizes have changed; perhaps they can give again what they could not."""
        for unit in units:
            if self._order is not None:
                if unit in self._order:
                    self._order.remove(unit)
                if can_give(unit):
                    self._order.add(unit)
            self.revived += instances_by_node(unit)

    def make_room(self, shape: Shape, may: May, among: object, wanted: int = 1) -> tuple[int, list[Unit]]:
        """A node where a pod of the shape fits once the units returned have shrunk, which they have; or NOWHERE.

        `among`: names those whom `may` lets give. `wanted`: so many pods of the shape are waiting; a node that serves
        more of them at once is better.
        """
        offers = self._offers.get((shape.index, among))
        if offers is None:
            if len(self._offers) >= SHAPES:
                return NOWHERE, []
            offers = self._offers[shape.index, among] = Offers(self, shape, may, wanted)
        node, givers = offers.take(wanted)
        self.changed(givers)
        return node, givers


class Offers:
    """What every node offers to one shape, best first."""

    def __init__(self, donors: Donors, shape: Shape, may: May, wanted: int) -> None:
        self.donors = donors
        self.board = donors.board
        self.shape = shape
        self.may = may
        self.wanted = wanted
        self.seen = len(self.board.field.grown), len(donors.revived)
        allowed = self.board.allowed
        offers = (self.offer(node) for node in donors.here if allowed(node, shape))
        self.heap = [(key, node) for key, node, _ in filter(None, offers)]
        heapq.heapify(self.heap)

    def take(self, wanted: int) -> tuple[int, list[Unit]]:
        """Take the best offer that is still good."""
        self.wanted = wanted
        self._look_again()
        heap = self.heap
        while heap:
            key, node = heap[0]
            offer = self.offer(node)
            if offer is None or (offer[0] == key and not take_from(self.board, offer[2], node, self.shape)):
                heapq.heappop(heap)
            elif offer[0] != key:
                heapq.heapreplace(heap, (offer[0], node))
            else:
                return node, [unit for unit, _ in offer[2]]
        return NOWHERE, []

    def _look_again(self) -> None:
        """Where room was gained, or donors have something to give again, an offer may have become better."""
        grown, revived = self.board.field.grown, self.donors.revived
        if self.seen == (len(grown), len(revived)):
            return
        for node in {*grown[self.seen[0] :], *revived[self.seen[1] :]}:
            if node in self.donors.here and self.board.allowed(node, self.shape):
                offer = self.offer(node)
                if offer is not None:
                    heapq.heappush(self.heap, (offer[0], node))
        self.seen = len(grown), len(revived)

    def offer(self, node: int) -> tuple[_Key, int, _Chosen] | None:
        """Who would leave this node for the shape, and how good that is; the less the better."""
        units = [unit for unit in self.donors.here[node] if can_give(unit) and self.may(unit)]
        best: tuple[_Key, int, _Chosen] | None = None
        for unit in units:
            count = leavers_needed(self.board, node, self.shape, unit)
            if 0 < count <= min(instances_at(unit, node), unit.size - unit.floor):
                key = self._key(node, unit, count)
                if best is None or key < best[0]:
                    best = key, node, [(unit, count)]
        return best or self._from_several(node, units)

    def _key(self, node: int, unit: Unit, count: int) -> _Key:
        policy = self.donors.policy
        fitting = _fitting_after(self.board, node, self.shape, unit, count, self.wanted)
        rank = policy.giving_class(unit), count, -fitting, policy.giving(unit), self.board.later[node][0], node
        return self.donors.tier(unit), 1, rank

    def _from_several(self, node: int, units: list[Unit]) -> tuple[_Key, int, _Chosen] | None:
        """Cheapest first, until it fits."""
        donors, row = self.donors, self.board.later[node]
        able = [(unit, min(instances_at(unit, node), unit.size - unit.floor)) for unit in units]
        for place, amount in self.shape.needs:
            freed = [most * unit.role.returned.requests[place] for unit, most in able if unit.role is not None]
            if row[place] + sum(freed) < amount:
                return None
        able.sort(key=lambda one: (donors.tier(one[0]), donors.policy.giving(one[0])))
        chosen = _choose(row, self.shape, able)
        if not chosen:
            return None
        total = sum(count for _, count in chosen)
        key = max(donors.tier(unit) for unit, _ in chosen), len(chosen) + 1, ((total, node),)
        return key, node, chosen


def can_give(unit: Unit) -> bool:
    facts = unit.facts
    return unit.size > unit.floor and facts.state == "active" and not facts.paused and not unit.short


def instances_by_node(unit: Unit) -> dict[int, int]:
    """Where its instances sit."""
    facts = unit.facts
    if not unit.seats:
        return dict(facts.bound[facts.scaled]) if facts.bound else {}
    here: dict[int, int] = {}
    for (node, _), seats in unit.seats[facts.scaled].items():
        if seats > 0 and node != NOWHERE:
            here[node] = here.get(node, 0) + seats
    return here


def instances_at(unit: Unit, node: int) -> int:
    facts = unit.facts
    if not unit.seats:
        return facts.bound[facts.scaled].get(node, 0)
    seats = unit.seats[facts.scaled]
    return sum([seats.get((node, sort), 0) for sort in _SORTS])


def leavers_needed(board: Board, node: int, shape: Shape, unit: Unit) -> int:
    """How many of the unit's instances must leave the node for the shape to fit; 0 if that does not help."""
    if node == NOWHERE or unit.role is None:
        return 0
    row, freed, count = board.later[node], unit.role.returned.requests, 0
    for place, amount in shape.needs:
        gap = amount - row[place]
        if gap > 0:
            if not freed[place]:
                return 0
            count = max(count, -(-gap // freed[place]))
    return count


def _fitting_after(board: Board, node: int, shape: Shape, unit: Unit, count: int, wanted: int) -> int:
    row = board.later[node]
    freed = unit.role.returned.requests if unit.role is not None else ()
    return min(wanted, *((row[place] + count * freed[place]) // amount for place, amount in shape.needs))


def _choose(row: list[int], shape: Shape, donors: _Chosen) -> _Chosen:
    """Cheapest first until it fits, then without those that turn out not to be needed, dearest first; or nothing."""
    gaps = {place: amount - row[place] for place, amount in shape.needs if amount > row[place]}
    chosen: _Chosen = []
    for unit, most in donors:
        freed = unit.role.returned.requests if unit.role is not None else ()
        useful = [-(-gap // freed[place]) for place, gap in gaps.items() if gap > 0 and freed[place] > 0]
        if useful and most > 0:
            count = min(most, max(useful))
            chosen.append((unit, count))
            gaps = {place: gap - count * freed[place] for place, gap in gaps.items()}
    if not gaps or any(gap > 0 for gap in gaps.values()):
        return []
    for place in reversed(range(len(chosen))):
        unit, count = chosen[place]
        freed = unit.role.returned.requests if unit.role is not None else ()
        while count > 0 and all(gap + freed[axis] <= 0 for axis, gap in gaps.items()):
            count -= 1
            gaps = {axis: gap + freed[axis] for axis, gap in gaps.items()}
        chosen[place] = (unit, count)
    return [(unit, count) for unit, count in chosen if count > 0]


def take_from(board: Board, donors: _Chosen, node: int, shape: Shape) -> bool:
    """Shrink the donors by so many instances on this node; False, and nothing has changed, if that does not help."""
    mark = board.mark()
    for unit, count in donors:
        size = unit.size_within(unit.size - count)
        if size > unit.size - count:
            board.rollback(mark)
            return False
        unit.open_seats()
        shrink(board, unit, size, prefer=node)
    if board.fits(node, shape, False):
        return True
    board.rollback(mark)
    return False
