"""Growth: instance by instance to whoever the policy serves next, until nobody can take another one.

Every turn of the loop either grants a step, of which there are at most as many as the sum of the ranges (and as the
nodes have room for), or takes a unit out of the tree for good: room only gets scarcer while it runs. So it ends.
GPU jobs are served before CPU-only jobs. A newcomer is first raised to the size its user wants to start with.
"""

from collections.abc import Iterable

from edl.scheduler.cycle import Cycle
from edl.scheduler.facts import NOWHERE
from edl.scheduler.gang import affordable, place
from edl.scheduler.memory import Promise
from edl.scheduler.reasons import AT_MAXIMUM, Code, Lack
from edl.scheduler.seats import shrink, sit
from edl.scheduler.settings import GATHER_FOR, PROMISE_FOR
from edl.scheduler.tree import Tree
from edl.scheduler.unit import Sort, Unit

# One of each for the thousands of units that they hold for.
_PAUSED, _PINNED, _MOVED, _FINISHING = map(Lack, (Code.PAUSED, Code.PINNED, Code.MOVED, Code.FINISHING))


def obey_users(cycle: Cycle) -> None:
    """A size that the user has asked for since the last cycle is obeyed; the scheduler goes on from there (10)."""
    for unit in _asked_anew(cycle):
        wanted = unit.size_within(unit.facts.start)
        unit.moved = True
        if wanted < unit.size:
            unit.open_seats()
            shrink(cycle.board, unit, wanted)
            unit.gives(Code.SCALED, str(unit.facts.start))


def _asked_anew(cycle: Cycle) -> list[Unit]:
    return [unit for unit in cycle.asked if unit.size > 0 and not unit.facts.paused and not unit.short]


def grow(cycle: Cycle) -> None:
    cycle.said.clear()
    for unit in _asked_anew(cycle):
        _raise_to(cycle, unit, unit.size_within(unit.facts.start))
    _keep_promises(cycle)
    active = cycle.active
    for unit in active:
        if unit.admitted and not unit.optimistic:
            _raise_to(cycle, unit, unit.size_within(unit.facts.start))
    eager = _with_room(cycle, [unit for unit in active if _may_grow(cycle, unit)])
    _serve(cycle, (unit for unit in eager if unit.gpu))
    _serve(cycle, (unit for unit in eager if not unit.gpu))


def _with_room(cycle: Cycle, units: Iterable[Unit]) -> list[Unit]:
    """Without those for whose next instance there is no node already: there will not be one later in this cycle."""
    full: dict[int, Lack | None] = {}
    found = []
    for unit in units:
        if unit.role is None:
            continue
        shape = unit.role.shape
        if shape.index not in full:
            room = bool(shape.rules) or cycle.board.find(shape, now=True) != NOWHERE
            full[shape.index] = None if room else Lack(Code.NO_ROOM, role=unit.facts.scaled)
        lack = full[shape.index]
        if lack is None:
            found.append(unit)
        elif not unit.facts.rescale_seconds or next_size(unit) > unit.size:
            unit.lack = lack if lack.role == unit.facts.scaled else Lack(Code.NO_ROOM, role=unit.facts.scaled)
        else:
            unit.lack = _at_the_top(unit)
    return found


def _at_the_top(unit: Unit) -> Lack:
    """It has its maximum, or the rest up to it is too little to be worth a pause."""
    return Lack(Code.AT_MAXIMUM if unit.size >= unit.ceiling else Code.NOT_WORTHWHILE, needed=unit.worthwhile())


def _serve(cycle: Cycle, units: Iterable[Unit]) -> None:
    tree = Tree(cycle.policy.serving, units)
    while len(tree):
        unit = tree.pop_leftmost()
        while step(cycle, unit):
            if unit.size >= unit.ceiling:
                unit.lack = AT_MAXIMUM
                break
            following = tree.leftmost()
            if following is not None and cycle.policy.serving(following) < cycle.policy.serving(unit):
                tree.add(unit)
                break


def _raise_to(cycle: Cycle, unit: Unit, size: int) -> None:
    while unit.size < size and step(cycle, unit):
        pass


def _may_grow(cycle: Cycle, unit: Unit) -> bool:
    """Whether it takes part; if not, its reason is noted."""
    facts = unit.facts
    if unit.size <= 0 or unit.short or unit.promised:
        return False
    if facts.paused:
        unit.lack = _PAUSED
    elif facts.pinned:
        unit.lack = _PINNED
    elif not facts.elastic:
        unit.lack = Lack(Code.FIXED, other=facts.why_fixed)
    elif unit.moved:
        unit.lack = unit.lack or _MOVED
    elif unit.size >= unit.ceiling:
        unit.lack = AT_MAXIMUM
    elif facts.done:
        unit.lack = _FINISHING
    elif not unit.admitted and (frozen := unit.frozen_for(cycle.now)) > 0:
        unit.lack = Lack(Code.FROZEN, seconds=frozen)
    else:
        return True
    return False


def next_size(unit: Unit) -> int:
    """One step up, or as many as make the change worth its pause; its own size if there is no such step."""
    size = unit.size_above(unit.size)
    worthwhile = unit.worthwhile()
    while size - unit.size < worthwhile:
        above = unit.size_above(size)
        if above == size:
            return unit.size
        size = above
    return size


def step(cycle: Cycle, unit: Unit) -> bool:
    """One step up if there is room for it now; else its lack is noted."""
    size = next_size(unit)
    if size <= unit.size:
        unit.lack = _at_the_top(unit)
        return False
    cycle.steps += 1
    before, after = unit.pods_at(unit.size), unit.pods_at(size)
    pods = [have - had for have, had in zip(after, before, strict=True)]
    lack = _seat_one(cycle, unit, pods) if sum(pods) == 1 else _seat_several(cycle, unit, pods)
    if lack is not None:
        one = unit.size_above(unit.size)
        unit.lack = lack if size == one else Lack(Code.NOT_WORTHWHILE, needed=size - unit.size)
        return False
    cycle.board.resize(unit, size)
    unit.grew = True
    return True


def _seat_one(cycle: Cycle, unit: Unit, pods: list[int]) -> Lack | None:
    """The common case, without the machinery of gangs."""
    role = pods.index(1)
    shape = unit.facts.roles[role].shape
    node = cycle.board.find(shape, now=True)
    if node == NOWHERE:
        return Lack(Code.NO_ROOM, role=role)
    lack = affordable(cycle.board, unit, pods, now=True, growth=True)
    if lack is not None:
        return lack
    unit.open_seats()
    sit(cycle.board, unit, role, node, Sort.FRESH)
    return None


def _seat_several(cycle: Cycle, unit: Unit, pods: list[int]) -> Lack | None:
    unit.open_seats()
    return place(cycle.board, unit, pods, now=True, growth=True)


def _keep_promises(cycle: Cycle) -> None:
    """Room that was freed for a unit is its own: in one piece if it comes together soon, else as far as it came."""
    if not cycle.memory.promises:
        return
    for unit in cycle.active:
        promise = cycle.memory.promises.get(unit.key)
        if promise is None or cycle.now - promise.made > PROMISE_FOR or not _may_grow(cycle, unit):
            continue
        size = unit.size_within(promise.size)
        if size > unit.size:
            _keep_promise(cycle, unit, size, promise)


def _keep_promise(cycle: Cycle, unit: Unit, size: int, promise: Promise) -> None:
    pods = [have - had for have, had in zip(unit.pods_at(size), unit.pods_at(unit.size), strict=True)]
    unit.open_seats()
    if place(cycle.board, unit, pods, now=True, growth=True) is None:
        cycle.board.resize(unit, size)
        unit.grew = True
    elif cycle.now - promise.made < GATHER_FOR and place(cycle.board, unit, pods, now=False, growth=True) is None:
        unit.promised = size
        unit.lack = Lack(Code.ROOM_COMING, other=f" for {size - unit.size} more")
        cycle.promises[unit.key] = promise
