"""Making room: whose instances leave, and from which node, so that a pod that does not fit will fit.

One donor on one node if that suffices, for every job that is rescaled stops for a moment; several on one node
otherwise. Donors are tried in the order given, cheapest first, and by tiers: nothing is taken from a higher tier
while a lower one can help. No more is taken than the pod needs. Nobody goes below its minimum; who is paused gives
nothing.
"""

from collections.abc import Callable, Iterable, Iterator

from edl.scheduler.board import Board
from edl.scheduler.facts import NOWHERE, Shape
from edl.scheduler.policy import Policy
from edl.scheduler.seats import shrink
from edl.scheduler.tree import Tree
from edl.scheduler.unit import Unit

ALIKE = 32
May = Callable[[Unit], bool]


class Donors:
    """Units that have something to give, in the order in which they give it."""

    def __init__(
        self,
        board: Board,
        units: Iterable[Unit],
        policy: Policy,
        tier: Callable[[Unit], tuple[int, ...]] = lambda unit: (),
    ) -> None:
        self.board = board
        self.policy = policy
        self.tier = tier
        order = policy.giving
        self.tree = Tree(lambda unit: (tier(unit), *order(unit)), (unit for unit in units if can_give(unit)))

    def refresh(self, units: Iterable[Unit]) -> None:
        """Their sizes have changed."""
        for unit in units:
            if unit in self.tree:
                self.tree.remove(unit)
            if can_give(unit):
                self.tree.add(unit)

    def make_room(self, shape: Shape, may: May, wanted: int = 1) -> tuple[int, list[Unit]]:
        """A node where a pod of the shape fits once the units returned have shrunk, which they have; or NOWHERE.

        `wanted`: so many pods of the shape are waiting; a node that serves more of them at once is better.
        """
        cheaper: list[Unit] = []
        for group in self._groups(may):
            if cheaper and self.tier(group[0]) != self.tier(cheaper[-1]):
                node, givers = self._from_several(cheaper, shape)
                if node != NOWHERE:
                    return node, givers
            cheaper += group
            node, giver = self._from_one_of(group, shape, wanted)
            if giver is not None:
                return node, [giver]
        return self._from_several(cheaper, shape)

    def _groups(self, may: May) -> Iterator[list[Unit]]:
        """Units from which it is all the same to take, a few at a time: among these the best node decides."""
        group: list[Unit] = []
        for unit in self.tree:
            if not may(unit):
                continue
            first = group[0] if group else unit
            if len(group) == ALIKE or self.tier(unit) != self.tier(first) or not self.policy.alike(first, unit):
                yield group
                group = []
            group.append(unit)
        if group:
            yield group

    def _from_one_of(self, units: list[Unit], shape: Shape, wanted: int) -> tuple[int, Unit | None]:
        """The node where the fewest must leave, where most waiting pods will fit, whose turn it is, the fullest."""
        board = self.board
        best: tuple[int, int, int, int, int] | None = None
        for turn, unit in enumerate(units):
            for node, seats in instances_by_node(unit).items():
                if not board.allowed(node, shape):
                    continue
                count = leavers_needed(board, node, shape, unit)
                if 0 < count <= seats and unit.size - count >= unit.floor:
                    fitting = _fitting_after(board, node, shape, unit, count, wanted)
                    key = count, -fitting, turn, board.later[node][0], node
                    best = key if best is None or key < best else best
        if best is None:
            return NOWHERE, None
        giver = units[best[2]]
        return (best[4], giver) if self._take([(giver, best[0])], best[4], shape) else (NOWHERE, None)

    def _from_several(self, units: list[Unit], shape: Shape) -> tuple[int, list[Unit]]:
        """The node where the fewest instances must leave, cheapest first."""
        here: dict[int, list[tuple[Unit, int]]] = {}
        for unit in units:
            for node, seats in instances_by_node(unit).items():
                if self.board.allowed(node, shape):
                    here.setdefault(node, []).append((unit, min(seats, unit.size - unit.floor)))
        best: tuple[int, int, list[tuple[Unit, int]]] | None = None
        for node in sorted(here):
            chosen = _choose(self.board.later[node], shape, here[node])
            if chosen and (best is None or sum(count for _, count in chosen) < best[0]):
                best = sum(count for _, count in chosen), node, chosen
        if best is None or not self._take(best[2], best[1], shape):
            return NOWHERE, []
        return best[1], [unit for unit, _ in best[2]]

    def _take(self, donors: list[tuple[Unit, int]], node: int, shape: Shape) -> bool:
        taken = take_from(self.board, donors, node, shape)
        if taken:
            self.refresh([unit for unit, _ in donors])
        return taken


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


def _choose(row: list[int], shape: Shape, donors: list[tuple[Unit, int]]) -> list[tuple[Unit, int]]:
    """Cheapest first until it fits, then without those that turn out not to be needed, dearest first; or nothing."""
    gaps = {place: amount - row[place] for place, amount in shape.needs if amount > row[place]}
    chosen: list[tuple[Unit, int]] = []
    for unit, most in donors:
        freed = unit.role.returned.requests if unit.role is not None else ()
        useful = [-(-gap // freed[place]) for place, gap in gaps.items() if gap > 0 and freed[place] > 0]
        if useful and most > 0:
            count = min(most, max(useful))
            chosen.append((unit, count))
            gaps = {place: gap - count * freed[place] for place, gap in gaps.items()}
    if any(gap > 0 for gap in gaps.values()):
        return []
    for place in reversed(range(len(chosen))):
        unit, count = chosen[place]
        freed = unit.role.returned.requests if unit.role is not None else ()
        while count > 0 and all(gap + freed[axis] <= 0 for axis, gap in gaps.items()):
            count -= 1
            gaps = {axis: gap + freed[axis] for axis, gap in gaps.items()}
        chosen[place] = (unit, count)
    return [(unit, count) for unit, count in chosen if count > 0]


def take_from(board: Board, donors: list[tuple[Unit, int]], node: int, shape: Shape) -> bool:
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
