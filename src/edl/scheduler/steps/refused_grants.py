"""Grants whose pods the API server refuses are given back, so that nobody goes without for pods that are never made.

A job that has no pods, or has never run, gives back all of it; one that runs gives back what it has no pods for, but
keeps its minimum. Then it waits, twice as long each time, or until it is edited.
"""

from edl.scheduler.cycle import Cycle
from edl.scheduler.memory import RefusedGrant, strike
from edl.scheduler.placement.placements import largest_size
from edl.scheduler.reasons.codes import Blocker, Code
from edl.scheduler.settings import GRANT_BACKOFF, GRANT_BACKOFF_MAX, PODS_WITHIN
from edl.scheduler.unit import Unit


def recall_refusals(cycle: Cycle) -> None:
    """Of earlier cycles; those of jobs that are gone or were edited, and old ones, are forgotten."""
    if not cycle.memory.refused:
        return
    for unit in cycle.active:
        known = cycle.memory.refused.get(unit.key)
        if known is None or known.generation != unit.facts.generation:
            continue
        if cycle.now < known.backoff.until + GRANT_BACKOFF_MAX:
            cycle.refused[unit.key] = known


def refused_blocker(cycle: Cycle, unit: Unit) -> Blocker | None:
    """Whether its pods were refused a short while ago, so that it gets nothing more now."""
    known = cycle.refused.get(unit.key)
    if known is None or cycle.now >= known.backoff.until:
        return None
    return Blocker(Code.REFUSED, message=refused_message(known.message))


def refused_message(message: str) -> str:
    return f"its pods are refused, which is tried again later: {message}"


def give_back(cycle: Cycle, unit: Unit) -> None:
    """Lowers the size to the pods that exist, if others have been refused for a while."""
    facts = unit.facts
    since = max(facts.refused_since, facts.last_scale_time or 0.0)
    if not facts.refusal or unit.size == 0 or cycle.now - since < PODS_WITHIN:
        return
    pods = [bound + len(unit.unbound[role]) for role, bound in enumerate(facts.live)]
    pods[facts.lead] += facts.done
    if all(have >= wanted for have, wanted in zip(pods, unit.pods_at(unit.size), strict=True)):
        return
    if unit.fall_back():
        _strike(cycle, unit)
        return
    held = largest_size(unit, pods)
    if held < unit.floor:
        held = min(unit.floor, unit.size) if facts.reached and any(pods) else 0
    if held == unit.size:
        return
    _strike(cycle, unit)
    unit.note_shrink(Code.REFUSED, facts.refusal)
    unit.size = held


def _strike(cycle: Cycle, unit: Unit) -> None:
    facts, known = unit.facts, cycle.refused.get(unit.key)
    backoff = strike(known.backoff if known is not None else None, cycle.now, GRANT_BACKOFF, GRANT_BACKOFF_MAX)
    cycle.refused[unit.key] = RefusedGrant(backoff, facts.refusal, facts.generation)
