"""Why a unit gets its target: a stable code for programs and a sentence with numbers for people."""

from collections.abc import Sequence

from edl.scheduler.cycle import Cycle
from edl.scheduler.missing import count, missing
from edl.scheduler.reasons import AT_MAXIMUM, Code, Lack
from edl.scheduler.resources import CPU, show
from edl.scheduler.settings import REFUSED_FOR
from edl.scheduler.unit import Unit

SHOWN = 3  # of many causes so many are named

_IDLE = {
    "suspended": (Code.SUSPENDED, "suspended: holds nothing and keeps its place"),
    "finished": (Code.FINISHED, "finished: holds nothing"),
    "deleting": (Code.DELETING, "is being deleted: holds nothing"),
    "invalid": (Code.INVALID, "left alone: it does not validate"),
}


def reason_for(cycle: Cycle, unit: Unit) -> tuple[Code, str]:
    facts = unit.facts
    if facts.state != "active":
        code, words = _IDLE[facts.state]
        return code, f"{words} ({facts.note})" if facts.note else words
    change = unit.size - facts.current
    if change < 0:
        return _smaller(unit, change)
    if change > 0:
        return _larger(cycle, unit, change)
    lack = unit.lack or (Lack(Code.PAUSED) if facts.paused else AT_MAXIMUM)
    words = missing(cycle, lack, facts)
    if unit.size == 0:
        return lack.code, f"waits: {words}"
    return lack.code, f"below its minimum: {words}" if unit.short else f"holds {unit.size}: {words}"


def _smaller(unit: Unit, change: int) -> tuple[Code, str]:
    match unit.why:
        case None:
            return Code.GRANTED, f"{change}: as it was granted before"
        case Code.ABOVE_MAXIMUM if unit.facts.pinned:
            return Code.PINNED, f"{change}: pinned to {unit.ceiling} (edl.dev/pin)"
        case Code.ABOVE_MAXIMUM if unit.sizes:
            return Code.ABOVE_MAXIMUM, f"{change}: {unit.size} is the nearest size that it may have"
        case Code.ABOVE_MAXIMUM:
            return Code.ABOVE_MAXIMUM, f"{change}: above {unit.facts.max_name} {unit.ceiling}"
        case Code.WITHDRAWN:
            pods = count(int(unit.cause[0]), "instance")
            return Code.WITHDRAWN, f"{change}: {pods} could not be placed for {REFUSED_FOR:.0f} s, tried again later"
        case Code.UNPLACEABLE:
            pods = count(int(unit.cause[0]), "instance")
            return Code.UNPLACEABLE, f"{change}: no node has room for {pods} that it was granted"
    return unit.why, f"{change}: {_VERBS[unit.why]} {_listed(unit.cause)}"


def _listed(causes: Sequence[str]) -> str:
    more = f" and {len(causes) - SHOWN} more" if len(causes) > SHOWN else ""
    return ", ".join(causes[:SHOWN]) + more


_VERBS = {
    Code.MADE_ROOM: "makes room for",
    Code.EVENED: "evens out shares with",
    Code.SCALED: "its user asked for",
}


def _larger(cycle: Cycle, unit: Unit, change: int) -> tuple[Code, str]:
    if unit.optimistic:
        why = "pods are created at once" if unit.facts.create_early else "starts optimistically"
        lacking = missing(cycle, unit.lack, unit.facts) if unit.lack is not None else "there is no room yet"
        return Code.OPTIMISTIC, f"+{change}: {why}, though {lacking}"
    if not (unit.admitted or unit.grew):
        return Code.GRANTED, f"+{change}: as it was granted before"
    free = _free_in_words(cycle, unit)
    if unit.admitted and unit.size == unit.floor:
        return Code.STARTED, f"+{change}: starts with its minimum; {free}; limited by {_limit_in_words(cycle, unit)}"
    code = Code.STARTED if unit.admitted else Code.GROWN
    return code, f"+{change}: {free}; limited by {_limit_in_words(cycle, unit)}"


def _free_in_words(cycle: Cycle, unit: Unit) -> str:
    """What was free of the resource that matters most to the unit."""
    axes = cycle.snapshot.axes
    if unit.role is not None and unit.role.shape.gpus:
        free = sum(cycle.board.free_before[place] for place in axes.gpus)
        total = sum(cycle.board.capacity[place] for place in axes.gpus)
        return f"{free} of {total} GPUs were free"
    free, total = cycle.board.free_before[0], cycle.board.capacity[0]
    return f"{show(CPU, free).removesuffix(' CPU')} of {show(CPU, total)} were free"


def _limit_in_words(cycle: Cycle, unit: Unit) -> str:
    if unit.size >= unit.ceiling:
        return unit.facts.max_name
    match unit.lack.code if unit.lack is not None else None:
        case Code.LOAD:
            return f"the load cap of {cycle.settings.max_load} of the CPU"
        case Code.QUOTA:
            return "its quota"
        case Code.PROMISED:
            return "limits that are promised already"
        case Code.BACKOFF:
            return "the back-off of a shape that the cluster refused"
    return "what is free"
