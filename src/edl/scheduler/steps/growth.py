"""Growth: instance by instance to the unit that the policy serves next, until nobody can take another one.

Every turn of the loop either grants a step, of which there are at most as many as the sum of the ranges (and as fit
on the nodes), or takes a unit out of the tree for good: capacity only gets scarcer while it runs. So it ends.
GPU jobs are served before CPU-only jobs. A newcomer is first raised to the size its user wants to start with, and if
that is more than its minimum, it grows beyond in a later cycle. A size that a user has set is held for a while.
"""

from collections.abc import Iterable

from edl.scheduler.cycle import Cycle
from edl.scheduler.memory import Promise
from edl.scheduler.placement.gang import limits_blocker, place_gang
from edl.scheduler.placement.placements import place_pod
from edl.scheduler.policies.score_tree import ScoreTree
from edl.scheduler.reasons.codes import AT_MAXIMUM, Blocker, Code
from edl.scheduler.settings import GATHER_FOR, PROMISE_FOR, STARTS_WITHIN
from edl.scheduler.snapshot.types import NOWHERE
from edl.scheduler.steps.division import grow_to_wishes, redistribute, wish
from edl.scheduler.steps.reclaim import can_give
from edl.scheduler.steps.refused_grants import refused_blocker
from edl.scheduler.steps.relocation import finish_relocations, gather
from edl.scheduler.steps.user_sizes import may_be_resized, user_blocker
from edl.scheduler.unit import PlacementState, Unit

# One of each for the thousands of units that they hold for.
_STARTING = Blocker(Code.STARTING)
_PAUSED, _PINNED, _MOVED, _FINISHING = map(Blocker, (Code.PAUSED, Code.PINNED, Code.MOVED, Code.FINISHING))


def grow(cycle: Cycle) -> None:
    cycle.messages.clear()
    for unit, size in cycle.asked_sizes:
        if may_be_resized(unit):
            _raise_to(cycle, unit, unit.size_within(size))
    _return_to_user_sizes(cycle)
    _keep_promises(cycle)
    active = cycle.active
    for unit in active:
        if unit.admitted and not unit.optimistic:
            _raise_to(cycle, unit, unit.size_within(unit.facts.start))
    eager = [unit for unit in active if _may_grow(cycle, unit)]
    if cycle.policy.divides:
        eager = _divide(cycle, eager)
    eager = _with_capacity(cycle, eager)
    _serve(cycle, (unit for unit in eager if unit.gpu))
    _serve(cycle, (unit for unit in eager if not unit.gpu))


def _divide(cycle: Cycle, eager: list[Unit]) -> list[Unit]:
    """Capacity goes where most is made of it; what that leaves is for whom a model does not advise against it."""
    finish_relocations(cycle)
    growing = {id(unit) for unit in eager if not unit.moved and unit.key not in cycle.relocations}
    movable = [unit for unit in cycle.active if id(unit) in growing or _may_shrink(cycle, unit)]
    wish(cycle, movable)
    grow_to_wishes(cycle, [unit for unit in movable if id(unit) in growing])
    redistribute(cycle, movable)
    gather(cycle, [unit for unit in movable if id(unit) in growing])
    return [unit for unit in eager if unit.facts.model is None and not (unit.promised or unit.moved)]


def _may_shrink(cycle: Cycle, unit: Unit) -> bool:
    """At its maximum, which is no reason to keep all of it."""
    if unit.blocker is not AT_MAXIMUM or not can_give(unit):
        return False
    busy = unit.promised or unit.moved or unit.facts.done or unit.key in cycle.user_sizes
    return not (busy or unit.key in cycle.relocations) and unit.frozen_for(cycle.now) <= 0


def _return_to_user_sizes(cycle: Cycle) -> None:
    """One that had to give up some of the size that its user set gets it back first."""
    if not cycle.user_sizes:
        return
    for unit in cycle.active:
        known = cycle.user_sizes.get(unit.key)
        if known is not None and not (unit.moved or unit.incomplete or unit.raising or unit.facts.pause):
            _raise_to(cycle, unit, unit.size_within(known.size))


def _with_capacity(cycle: Cycle, units: Iterable[Unit]) -> list[Unit]:
    """Without those for whose next instance no node has capacity: none will have later in this cycle."""
    full: dict[int, Blocker | None] = {}
    found = []
    for unit in units:
        if unit.role is None:
            continue
        shape = unit.role.shape
        if shape.index not in full:
            fits = bool(shape.rules) or cycle.cluster.find(shape, now=True) != NOWHERE
            full[shape.index] = None if fits else Blocker(Code.NO_ROOM, role=unit.facts.lead)
        blocker = full[shape.index]
        if blocker is None:
            found.append(unit)
        elif not unit.facts.rescale_seconds or next_size(unit) > unit.size:
            unit.blocker = blocker if blocker.role == unit.facts.lead else Blocker(Code.NO_ROOM, role=unit.facts.lead)
        else:
            unit.blocker = _at_maximum(unit)
    return found


def _at_maximum(unit: Unit) -> Blocker:
    """It has its maximum, or the rest up to it is too little to be worth a pause."""
    return Blocker(Code.AT_MAXIMUM if unit.size >= unit.ceiling else Code.NOT_WORTHWHILE, needed=unit.worthwhile())


def _serve(cycle: Cycle, units: Iterable[Unit]) -> None:
    tree = ScoreTree(cycle.policy.serving_order, units)
    while len(tree):
        unit = tree.pop_leftmost()
        while step(cycle, unit):
            if unit.size >= unit.ceiling:
                unit.blocker = AT_MAXIMUM
                break
            following = tree.leftmost()
            if following is not None and cycle.policy.serving_order(following) < cycle.policy.serving_order(unit):
                tree.add(unit)
                break


def _raise_to(cycle: Cycle, unit: Unit, size: int) -> None:
    while unit.size < size and step(cycle, unit):
        pass


def _may_grow(cycle: Cycle, unit: Unit) -> bool:
    """Whether it takes part; if not, its blocker is noted."""
    facts = unit.facts
    if unit.size <= 0 or unit.incomplete or unit.promised or (unit.size < unit.minimum and not facts.pause):
        return False
    if unit.tied:
        unit.blocker = _tie(unit)
    elif unit.moved:
        unit.blocker = unit.blocker or _MOVED
    elif cycle.user_sizes and (known := cycle.user_sizes.get(unit.key)):
        unit.blocker = user_blocker(known) if unit.size >= known.size else unit.blocker
    elif unit.size >= unit.ceiling:
        unit.blocker = AT_MAXIMUM
    elif (unit.admitted or cycle.memory.starting) and _starting(cycle, unit):
        unit.blocker = _STARTING
    elif facts.done:
        unit.blocker = _FINISHING
    elif cycle.refused and (refused := refused_blocker(cycle, unit)):
        unit.blocker = refused
    elif facts.last_scale_time is None or unit.admitted or unit.key in cycle.memory.starting:
        return True
    elif (frozen := unit.frozen_for(cycle.now)) > 0:
        unit.blocker = Blocker(Code.FROZEN, seconds=frozen)
    else:
        return True
    return False


def _tie(unit: Unit) -> Blocker:
    """What its user has written that keeps it at its size."""
    facts = unit.facts
    if facts.pause:
        return _PAUSED
    return _PINNED if facts.pin else Blocker(Code.FIXED, detail=facts.fixed)


def _starting(cycle: Cycle, unit: Unit) -> bool:
    """A size to start with that the user names comes first; once it runs the unit grows, frozen or not."""
    since = cycle.memory.starting.get(unit.key)
    if unit.admitted and unit.facts.start > unit.minimum:
        since = cycle.now
    if since is None or cycle.now - since >= STARTS_WITHIN or (not unit.admitted and unit.facts.running >= unit.size):
        return False
    cycle.starting[unit.key] = since
    return True


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
    """One step up if there is capacity for it now; else its blocker is noted."""
    size = next_size(unit)
    if size <= unit.size:
        unit.blocker = _at_maximum(unit)
        return False
    cycle.steps += 1
    before, after = unit.pods_at(unit.size), unit.pods_at(size)
    pods = [have - had for have, had in zip(after, before, strict=True)]
    blocker = _place_one(cycle, unit, pods) if sum(pods) == 1 else _place_several(cycle, unit, pods)
    if blocker is not None:
        one = unit.size_above(unit.size)
        unit.blocker = blocker if size == one else Blocker(Code.NOT_WORTHWHILE, needed=size - unit.size)
        return False
    cycle.cluster.resize(unit, size)
    unit.grew = True
    return True


def _place_one(cycle: Cycle, unit: Unit, pods: list[int]) -> Blocker | None:
    """The common case, without the machinery of gangs."""
    role = pods.index(1)
    shape = unit.facts.roles[role].shape
    node = cycle.cluster.find(shape, now=True)
    if node == NOWHERE:
        return Blocker(Code.NO_ROOM, role=role)
    blocker = limits_blocker(cycle.cluster, unit, pods, now=True, growth=True)
    if blocker is not None:
        return blocker
    unit.open_placements()
    place_pod(cycle.cluster, unit, role, node, PlacementState.NEW)
    return None


def _place_several(cycle: Cycle, unit: Unit, pods: list[int]) -> Blocker | None:
    unit.open_placements()
    return place_gang(cycle.cluster, unit, pods, now=True, growth=True)


def _keep_promises(cycle: Cycle) -> None:
    """Capacity that was freed for a unit is its own: in one piece if it comes together soon, else as far as it came."""
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
    unit.open_placements()
    if place_gang(cycle.cluster, unit, pods, now=True, growth=True) is None:
        cycle.cluster.resize(unit, size)
        unit.grew = True
    elif (
        cycle.now - promise.made < GATHER_FOR and place_gang(cycle.cluster, unit, pods, now=False, growth=True) is None
    ):
        unit.promised = size
        unit.blocker = Blocker(Code.ROOM_COMING, detail=f" for {size - unit.size} more")
        cycle.promises[unit.key] = promise
