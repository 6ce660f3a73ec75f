"""Placing several pods together, or none of them: the minimum of a job with all its roles, or one step of growth.

Greedy, hardest pods first. Where greed fails a bounded search tries to do better, so that a small gang that fits at
all is not kept waiting by the order in which its pods were tried.
"""

from collections.abc import Sequence

from edl.scheduler.board import Board
from edl.scheduler.facts import NOWHERE, Shape
from edl.scheduler.reasons import Code, Lack
from edl.scheduler.seats import sit
from edl.scheduler.unit import Sort, Unit

SEARCH_PODS = 24
SEARCH_STEPS = 400


def place(board: Board, unit: Unit, pods: Sequence[int], *, now: bool, growth: bool) -> Lack | None:
    """Seat so many pods of every role; what was lacking if they cannot all be seated, and then nothing has changed.

    `now`: on room that is free now; else room is only kept for them, to be asked for again in the next plan.
    `growth`: it is more than the minimum, so the load cap holds.
    """
    if lack := affordable(board, unit, pods, now=now, growth=growth):
        return lack
    mark = board.mark()
    lack = None
    for role in hardest_first(unit, pods):
        if lack := _seat_role(board, unit, role, pods[role], now):
            break
    if lack is None:
        return None
    board.rollback(mark)
    return None if _search(board, unit, pods, now) else lack


def affordable(board: Board, unit: Unit, pods: Sequence[int], *, now: bool, growth: bool) -> Lack | None:
    """What speaks against it before any node is looked at."""
    for role, (facts, count) in enumerate(zip(unit.facts.roles, pods, strict=True)):
        if count > 0:
            if facts.problem:
                return Lack(Code.REFUSED, role=role, other=facts.problem)
            if facts.shape.index in board.backoff:
                return Lack(Code.BACKOFF, role=role, seconds=board.backoff[facts.shape.index])
    cpu, memory, taxes = bill(board, unit, pods)
    for account, amount in taxes.items():
        if board.tax_later[account] < amount or (now and board.tax_now[account] < amount):
            return Lack(Code.QUOTA, account=account, needed=amount)
    for spare in (board.spare_later, board.spare_now) if now else (board.spare_later,):
        if growth and cpu <= spare[0] < cpu + board.kept_idle:
            return Lack(Code.LOAD)
        if board.by_limits and 0 < cpu > spare[0]:
            return Lack(Code.PROMISED, needed=cpu)
        if board.by_limits and 0 < memory > spare[1]:
            return Lack(Code.PROMISED, needed=memory, placed=1)
    return None


def overdrawn(board: Board, unit: Unit, pods: Sequence[int]) -> Lack | None:
    """What these pods, who have their claims already, take too much of."""
    cpu, memory, taxes = bill(board, unit, pods)
    for account, amount in taxes.items():
        if board.tax_later[account] < 0:
            return Lack(Code.QUOTA, account=account, needed=amount)
    if board.by_limits and cpu > 0 > board.spare_later[0]:
        return Lack(Code.PROMISED, needed=cpu)
    if board.by_limits and memory > 0 > board.spare_later[1]:
        return Lack(Code.PROMISED, needed=memory, placed=1)
    return None


def bill(board: Board, unit: Unit, pods: Sequence[int]) -> tuple[int, int, dict[int, int]]:
    """CPU and memory of what is available, and quota, that so many pods of every role take."""
    cpu = memory = 0
    taxes: dict[int, int] = {}
    for facts, count in zip(unit.facts.roles, pods, strict=True):
        if count > 0:
            commits = board.commits(facts.shape)
            cpu += commits[0] * count
            memory += commits[1] * count
            for account, amount in facts.taxes:
                taxes[account] = taxes.get(account, 0) + amount * count
    return cpu, memory, taxes


def hardest_first(unit: Unit, pods: Sequence[int]) -> list[int]:
    def hardness(role: int) -> tuple[bool, int, int, int, int]:
        shape = unit.facts.roles[role].shape
        return not shape.rules, -shape.gpus, -shape.requests[0], -shape.requests[1], role

    return sorted((role for role, count in enumerate(pods) if count > 0), key=hardness)


def guard_of(unit: Unit, role: int) -> Shape | None:
    """Pods beside the instances should not spoil the room that instances could use."""
    return unit.role.shape if unit.role is not None and role != unit.facts.scaled else None


def _seat_role(board: Board, unit: Unit, role: int, count: int, now: bool) -> Lack | None:
    shape, guard = unit.facts.roles[role].shape, guard_of(unit, role)
    kept = list(unit.kept.get(role, ()))
    for placed in range(count):
        node = board.find(shape, now=now, guard=guard, prefer=kept.pop() if kept else NOWHERE)
        if node == NOWHERE:
            return Lack(Code.NO_ROOM, role=role, placed=placed, needed=count)
        take(board, unit, role, node, now)
    return None


def take(board: Board, unit: Unit, role: int, node: int, now: bool) -> None:
    """A fresh seat on room that is free now; a mere claim on room that will be."""
    if now:
        sit(board, unit, role, node, Sort.FRESH)
    else:
        facts = unit.facts.roles[role]
        board.shift(node, facts.shape, facts.taxes, 0, -1)
        board.tally(unit.claims, (role, node), 1)


def _search(board: Board, unit: Unit, pods: Sequence[int], now: bool) -> bool:
    """Depth first over nodes, pods of one role in the order of nodes, within a budget of steps."""
    roles = [facts for facts, count in zip(unit.facts.roles, pods, strict=True) if count > 0]
    if sum(pods) > SEARCH_PODS or (len(roles) == 1 and not roles[0].shape.rules):
        return False  # too large to search; or pods of one shape only, for which greed is exact
    queue = [role for role in hardest_first(unit, pods) for _ in range(pods[role])]
    choices = [
        board.allowed_nodes(facts.shape.where) if pods[role] else [] for role, facts in enumerate(unit.facts.roles)
    ]
    steps = SEARCH_STEPS
    mark = board.mark()

    def seat_from(place: int, after: int) -> bool:
        nonlocal steps
        if place == len(queue):
            return True
        role = queue[place]
        shape = unit.facts.roles[role].shape
        for node in choices[role]:
            steps -= 1
            if steps < 0:
                return False
            if node < after or not board.fits(node, shape, now):
                continue
            before = board.mark()
            take(board, unit, role, node, now)
            same = place + 1 < len(queue) and queue[place + 1] == role and not shape.rules
            if seat_from(place + 1, node if same else 0):
                return True
            board.rollback(before)
        return False

    if seat_from(0, 0):
        return True
    board.rollback(mark)
    return False
