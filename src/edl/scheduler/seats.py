"""Where the pods of a unit sit, and what it takes to sit down or to get up. Every change is journaled on the board.

The sorts of seats differ in what they give back, and when. They are in the order of what giving them up costs.
"""

from collections.abc import Sequence

from edl.scheduler.board import Board
from edl.scheduler.facts import NOWHERE
from edl.scheduler.unit import Sort, Unit


def sit(board: Board, unit: Unit, role: int, node: int, sort: Sort, *, exists: bool = False) -> None:
    """Take a seat. A pod that exists has paid its quota already."""
    facts = unit.facts.roles[role]
    now = 0 if sort is Sort.COMING else -1
    board.shift(node, facts.shape, () if exists else facts.taxes, now, -1)
    board.tally(unit.seats[role], (node, sort), 1)
    if exists and sort is Sort.COMING:
        board.tally(unit.exist[role], node, 1)


def get_up(board: Board, unit: Unit, role: int, node: int, sort: Sort) -> None:
    """Give a seat up. What runs keeps its room until it is gone; what does not frees it at once, but not its quota."""
    facts = unit.facts.roles[role]
    board.tally(unit.seats[role], (node, sort), -1)
    if sort is Sort.FRESH:
        board.shift(node, facts.shape, facts.taxes, 1, 1)
    elif sort is Sort.UNBOUND:
        board.shift(node, facts.shape, (), 1, 1)
        board.shift(NOWHERE, facts.shape, facts.taxes, 0, 1)
        board.tally(unit.leavers[role], "", 1)
    elif sort is Sort.BOUND:
        board.shift(node, facts.returned, facts.taxes, 0, 1)
        board.tally(unit.leavers[role], board.name(node), 1)
    elif unit.exist[role].get(node, 0) > 0:
        board.tally(unit.exist[role], node, -1)
        board.shift(node, facts.shape, facts.taxes, 0, 1)
        board.tally(unit.leavers[role], "", 1)
    else:
        board.shift(node, facts.shape, facts.taxes, 0, 1)


def seated(unit: Unit, role: int) -> int:
    """Pods of a role that have a node, for sure or by plan, and those that are done and need none."""
    pods = sum(count for (node, sort), count in unit.seats[role].items() if node != NOWHERE or sort is Sort.BOUND)
    return pods + (unit.facts.done if role == unit.facts.scaled else 0)


def complete(unit: Unit, size: int) -> bool:
    return all(seated(unit, role) >= count for role, count in enumerate(unit.pods_at(size)))


def largest_size(unit: Unit, pods: Sequence[int]) -> int:
    """The largest size up to its own for which so many pods of each role suffice; 0 if not even its floor's do."""
    size = unit.size_within(min(unit.size, pods[unit.facts.scaled])) if pods else 0
    while any(have < wanted for have, wanted in zip(pods, unit.pods_at(size), strict=True)):
        if size <= unit.floor:
            return 0
        size = unit.size_below(size)
    return size


def shrink(board: Board, unit: Unit, size: int, prefer: int = NOWHERE) -> None:
    """Down to a size. Of each role those leave that cost least, first where room is wanted."""
    board.resize(unit, size)
    dismiss_surplus(board, unit, prefer)


def dismiss_surplus(board: Board, unit: Unit, prefer: int = NOWHERE) -> None:
    """Live pods beyond what the size wants are on their way out, whether or not someone has told them yet."""
    for role, wanted in enumerate(unit.pods_at(unit.size)):
        have = sum(unit.seats[role].values()) + (unit.facts.done if role == unit.facts.scaled else 0)
        if have > wanted:
            _dismiss(board, unit, role, have - wanted, prefer)


def _dismiss(board: Board, unit: Unit, role: int, count: int, prefer: int) -> None:
    while count > 0:
        taken = [seat for seat, pods in unit.seats[role].items() if pods > 0]
        if not taken:
            return
        chosen = min(taken, key=lambda seat: _cost(board, unit, seat, prefer))
        for _ in range(min(count, unit.seats[role][chosen])):
            get_up(board, unit, role, *chosen)
            count -= 1


def _cost(board: Board, unit: Unit, seat: tuple[int, Sort], prefer: int) -> tuple[bool, int, bool, bool, int]:
    """Where room is wanted; what does not run; on nodes that take nothing new; without GPUs on nodes that have
    them.
    """
    node, sort = seat
    known = node != NOWHERE
    in_the_way = known and not unit.gpu and board.snapshot.nodes[node].gpu
    return prefer != NOWHERE and node != prefer, sort, known and board.usable[node], not in_the_way, -node
