"""Sizes that users ask for: applied when they are new, held for a while, then the scheduler goes on (decision 10).

A user asks by another number in the spec (`kubectl scale`), or by a request in an annotation (`edl scale`), which
counts though the number is the same; `edl resume` asks for the end of a hold. What is held, and the last request that
was obeyed, are in status too, so that a change of leaders changes neither.
"""

from collections.abc import Iterable

from edl.api.annotations import scale_request
from edl.scheduler.cycle import Cycle
from edl.scheduler.memory import UserSize
from edl.scheduler.placement.placements import shrink
from edl.scheduler.reasons.codes import Blocker, Code
from edl.scheduler.reasons.shortage import user_message
from edl.scheduler.unit import Unit


def apply_user_sizes(cycle: Cycle) -> None:
    resized, remembered = {id(unit) for unit in cycle.resized_by_user}, cycle.memory.requests
    everyone = resized or remembered or cycle.memory.user_sizes
    perhaps = cycle.active if everyone else [unit for unit in cycle.active if unit.asks]
    _recall_user_sizes(cycle, perhaps)
    for unit in perhaps:
        if unit.facts.request or unit.facts.obeyed or unit.key in remembered or id(unit) in resized:
            size = _asked_size(cycle, unit, resized=id(unit) in resized)
            if size is not None and may_be_resized(unit):
                _apply(cycle, unit, size)


def _asked_size(cycle: Cycle, unit: Unit, *, resized: bool) -> int | None:
    """What its user has asked for since the last cycle, if anything. A request that cannot be obeyed yet stays new."""
    facts, key = unit.facts, unit.key
    obeyed = cycle.memory.requests.get(key, facts.obeyed)
    if not facts.request or facts.request == obeyed:
        _note(cycle, unit, obeyed)
        return facts.start if resized else None
    try:
        size = scale_request(facts.request)
    except ValueError:
        size = None
    if size is None:
        cycle.user_sizes.pop(key, None)
        unit.edited = True
    _note(cycle, unit, facts.request if size is None or may_be_resized(unit) else obeyed)
    return size


def _note(cycle: Cycle, unit: Unit, request: str) -> None:
    if request:
        cycle.requests[unit.key] = request


def _apply(cycle: Cycle, unit: Unit, size: int) -> None:
    wanted = unit.size_within(size)
    unit.moved = True
    cycle.asked_sizes.append((unit, wanted))
    if cycle.settings.scale_hold > 0:
        known = cycle.user_sizes[unit.key] = UserSize(wanted, cycle.now + cycle.settings.scale_hold)
        unit.blocker = user_blocker(known)
    if wanted < unit.size:
        unit.open_placements()
        shrink(cycle.cluster, unit, wanted)
        unit.note_shrink(Code.SCALED, str(size))


def may_be_resized(unit: Unit) -> bool:
    return unit.size > 0 and not (unit.facts.pause or unit.incomplete or unit.raising)


def _recall_user_sizes(cycle: Cycle, units: Iterable[Unit]) -> None:
    """Of the last plan; of a job that no plan is remembered of, from its status."""
    for unit in units:
        known = cycle.memory.user_sizes.get(unit.key)
        if known is None and unit.facts.held is not None and unit.key not in cycle.memory.starts:
            known = UserSize(*unit.facts.held)
        if known is not None and cycle.now < known.until and unit.size > 0 and not unit.facts.pin:
            cycle.user_sizes[unit.key] = known


def user_blocker(known: UserSize) -> Blocker:
    return Blocker(Code.SCALED, message=user_message(known))
