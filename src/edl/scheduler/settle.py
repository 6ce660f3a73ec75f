"""The first step of a cycle: what every job holds before anything is decided.

A job holds what it was granted. Pods that were granted and are not there yet, or have no node yet, are seated where
they fit; live pods beyond the grant are on their way out. What cannot be seated is no target: above the minimum the
grant falls to what can, and a minimum that is not complete waits with the others. No limit of growth is asked here:
nothing that was granted is taken back for a load cap.
"""

from edl.scheduler.board import Board
from edl.scheduler.cycle import Cycle
from edl.scheduler.facts import NOWHERE
from edl.scheduler.gang import guard_of
from edl.scheduler.memory import strike
from edl.scheduler.reasons import Code
from edl.scheduler.seats import complete, dismiss_surplus, get_up, largest_size, seated, shrink, sit
from edl.scheduler.settings import REFUSED_FOR, SHAPE_BACKOFF, SHAPE_BACKOFF_MAX
from edl.scheduler.unit import Sort, Unit


def settle(cycle: Cycle) -> None:
    back_off_shapes(cycle)
    claiming = [unit for unit in cycle.units if not _at_rest(unit) and _claims(cycle, unit)]
    claiming.sort(key=lambda unit: unit.tie)
    for unit in claiming:  # everyone's minimum before anyone's more
        seat_up_to(cycle.board, unit, unit.pods_at(min(unit.size, unit.floor)))
    for unit in claiming:
        seat_up_to(cycle.board, unit, unit.pods_at(unit.size))
        _fall_to_what_sits(cycle.board, unit)


def _at_rest(unit: Unit) -> bool:
    """Everything it was granted is there, and nothing else: nothing to do."""
    facts = unit.facts
    if facts.state != "active":
        return facts.state == "invalid"
    if facts.unbound or unit.base < unit.floor or unit.base > unit.ceiling:
        return False
    if facts.done:
        return False
    return facts.live == unit.pods_at(unit.base) and (not unit.sizes or unit.base in unit.sizes)


def _claims(cycle: Cycle, unit: Unit) -> bool:
    """Open its seats and bring its size into its bounds; whether it has pods to seat."""
    unit.open_seats()
    board = cycle.board
    if unit.facts.state != "active":
        unit.size = 0
    elif not unit.facts.paused:
        _withdraw(cycle, unit)
        _into_bounds(unit)
    for role, pods in enumerate(unit.loose):
        for _ in pods:
            board.tally(unit.seats[role], (NOWHERE, Sort.UNBOUND), 1)
    _dismiss_loose(board, unit)
    dismiss_surplus(board, unit)
    return unit.size > 0


def _into_bounds(unit: Unit) -> None:
    fitting = unit.size_within(unit.size) if unit.size > 0 else 0
    if fitting < unit.size:
        unit.gives(Code.ABOVE_MAXIMUM, str(fitting))
    unit.size = fitting


def _withdraw(cycle: Cycle, unit: Unit) -> None:
    """A pod that kube-scheduler has refused for 15 s will not be placed soon: fall to what is bound (decision 26)."""
    facts = unit.facts
    if facts.create_early or (cycle.policy.starts_anyway(unit) and unit.size <= unit.floor):
        return
    refused = [
        role
        for role, pods in enumerate(unit.loose)
        if any(pod.refused_since is not None and cycle.now - pod.refused_since >= REFUSED_FOR for pod in pods)
    ]
    if not refused:
        return
    done = [facts.done if role == facts.scaled else 0 for role in range(len(facts.roles))]
    held = largest_size(unit, [live + more for live, more in zip(facts.live, done, strict=True)])
    if held < unit.floor and facts.started:
        held = min(unit.floor, unit.size)  # it runs: its minimum waits where it is
    for role in refused:
        _back_off(cycle, unit, role, whole=held < unit.floor)
    if held < unit.size:
        unit.gives(Code.WITHDRAWN, str(unit.size - held))
    unit.size = held


def _back_off(cycle: Cycle, unit: Unit, role: int, *, whole: bool) -> None:
    """Only if the plan sees room for it: where there is none, the refusal is no riddle. But a job that goes as a
    whole leaves room that it held itself: it would be granted the same again at once, and nothing would have moved."""
    shape = unit.facts.roles[role].shape
    known = cycle.shapes.get(shape.key)
    if not whole and cycle.board.find(shape, now=True) == NOWHERE:
        return
    if known is None or cycle.now >= known.until:
        cycle.shapes[shape.key] = strike(known, cycle.now, SHAPE_BACKOFF, SHAPE_BACKOFF_MAX)
    cycle.board.backoff[shape.index] = cycle.shapes[shape.key].until


def back_off_shapes(cycle: Cycle) -> None:
    """Shapes that still back off from earlier cycles; old ones are forgotten."""
    if not cycle.memory.shapes:
        return
    for key, known in cycle.memory.shapes.items():
        if cycle.now < known.until + SHAPE_BACKOFF_MAX:
            cycle.shapes[key] = known
    for facts in cycle.snapshot.jobs:
        for role in facts.roles:
            entry = cycle.shapes.get(role.shape.key)
            if entry is not None and cycle.now < entry.until:
                cycle.board.backoff[role.shape.index] = entry.until


def _dismiss_loose(board: Board, unit: Unit) -> None:
    """Unbound pods beyond what the size wants go first: they cost nothing."""
    for role, wanted in enumerate(unit.pods_at(unit.size)):
        done = unit.facts.done if role == unit.facts.scaled else 0
        spare = sum(unit.seats[role].values()) + done - wanted
        for _ in range(min(spare, len(unit.loose[role]))):
            unit.loose[role].pop()
            get_up(board, unit, role, NOWHERE, Sort.UNBOUND)


def seat_up_to(board: Board, unit: Unit, wanted: tuple[int, ...]) -> None:
    for role, count in enumerate(wanted):
        missing = count - seated(unit, role)
        while missing > 0 and _seat_one(board, unit, role):
            missing -= 1


def _seat_one(board: Board, unit: Unit, role: int) -> bool:
    """First the pods that exist, near where their plan wanted them; then those still to be made."""
    facts, loose = unit.facts.roles[role], unit.loose[role]
    exists = bool(loose)
    if not exists and (facts.problem or any(board.tax_later[account] < amount for account, amount in facts.taxes)):
        return False
    hint = loose[0].hint if exists else NOWHERE
    for now in (True, False):
        node = board.find(facts.shape, now=now, guard=guard_of(unit, role), prefer=hint)
        if node != NOWHERE:
            break
    else:
        return False
    if exists:
        loose.pop(0)
        board.tally(unit.seats[role], (NOWHERE, Sort.UNBOUND), -1)
    sort = Sort.COMING if not now else Sort.UNBOUND if exists else Sort.FRESH
    sit(board, unit, role, node, sort, exists=exists)
    return True


def _fall_to_what_sits(board: Board, unit: Unit) -> None:
    """Above the minimum the size falls to what has a seat; below it the unit waits for the rest."""
    if unit.facts.paused:
        return
    size = largest_size(unit, [seated(unit, role) for role in range(len(unit.facts.roles))]) or unit.floor
    if size < unit.size:
        if unit.why is None:
            unit.gives(Code.UNPLACEABLE, str(unit.size - size))
        shrink(board, unit, size)
    unit.short = not complete(unit, size)
