"""The reason of a target: a stable code for programs and a sentence with numbers for people."""

from collections.abc import Sequence

from edl.scheduler.cycle import Cycle
from edl.scheduler.missing_pods import missing_pods, missing_text
from edl.scheduler.placement.resources import CPU, show
from edl.scheduler.reasons.codes import AT_MAXIMUM, Blocker, Code
from edl.scheduler.reasons.shortage import blocker_message, count, user_message
from edl.scheduler.settings import REFUSED_FOR
from edl.scheduler.unit import Unit

SHOWN = 3  # of many causes so many are named
MADE_WITHIN = 30.0  # instances that are missing longer after a change of size were lost

_IDLE = {
    "suspended": (Code.SUSPENDED, "suspended: holds nothing and keeps its place"),
    "finished": (Code.FINISHED, "finished: holds nothing"),
    "deleting": (Code.DELETING, "is being deleted: holds nothing"),
    "invalid": (Code.INVALID, "left alone: it does not validate"),
}
_COMMON = (Code.NO_ROOM, Code.AT_MAXIMUM)


def reason_for(cycle: Cycle, unit: Unit) -> tuple[Code, str]:
    facts = unit.facts
    if facts.state != "active":
        code, message = _IDLE[facts.state]
        return code, f"{message} ({facts.note})" if facts.note else message
    if unit.more or (unit.role_blocker is not None and unit.size > 0):
        return _with_other_roles(cycle, unit, *_reason_for_size(cycle, unit))
    return _reason_for_size(cycle, unit)


def _with_other_roles(cycle: Cycle, unit: Unit, code: Code, message: str) -> tuple[Code, str]:
    """What became of other roles' pods for which it asks in addition: the reason, if its size stays."""
    same = unit.size == unit.facts.current
    if unit.role_blocker is None:
        words = f"is granted {unit.more}"
        return (Code.GROWN, f"holds {unit.size}: {words}") if same else (code, f"{message}; {words}")
    waits = f"{missing_text(unit, missing_pods(unit))} wait: {blocker_message(cycle, unit.role_blocker, unit.facts)}"
    return (unit.role_blocker.code, f"holds {unit.size}: {waits}") if same else (code, f"{message}; {waits}")


def _reason_for_size(cycle: Cycle, unit: Unit) -> tuple[Code, str]:
    facts = unit.facts
    change = unit.size - facts.current
    if change < 0:
        return _smaller(cycle, unit, change)
    if change > 0:
        return _larger(cycle, unit, change)
    blocker = unit.blocker
    if blocker is not None and blocker.code in _COMMON and unit.at_rest and unit.size >= unit.minimum:
        return _holds_like_others(cycle, unit, blocker)
    return _holds(cycle, unit)


def _holds_like_others(cycle: Cycle, unit: Unit, blocker: Blocker) -> tuple[Code, str]:
    """In a full cluster nearly every job has one of these reasons, and many have it word for word."""
    facts = unit.facts
    if unit.size == 0 or unit.incomplete or blocker.role >= len(facts.roles):
        return _holds(cycle, unit)
    role = facts.roles[blocker.role]
    what = facts.max_name if blocker.code is Code.AT_MAXIMUM else role.name
    key = id(blocker), role.shape.index, what, unit.size  # units keep their blockers to the end of the cycle
    found = cycle.reasons.get(key)
    if found is None:
        found = cycle.reasons[key] = _holds(cycle, unit)
    return found


def _holds(cycle: Cycle, unit: Unit) -> tuple[Code, str]:
    facts = unit.facts
    blocker = unit.blocker or (Blocker(Code.PAUSED) if facts.pause else AT_MAXIMUM)
    message = blocker_message(cycle, blocker, facts)
    if unit.size == 0:
        return blocker.code, f"waits: {message}"
    if unit.incomplete:
        return blocker.code, f"below its minimum: {message}"
    if unit.size < unit.minimum and not facts.pause:
        message = f"its new minimum of {unit.minimum} waits: {message}"
    return blocker.code, f"holds {unit.size}: {message}"


def _smaller(cycle: Cycle, unit: Unit, change: int) -> tuple[Code, str]:
    known = cycle.user_sizes.get(unit.key)
    match unit.shrink_reason:
        case None | Code.SCALED if known is not None and known.size == unit.size:
            return Code.SCALED, f"{change}: {user_message(known)}"
        case None:
            return Code.GRANTED, f"{change}: it was granted {unit.size}, the others are leaving"
        case Code.ABOVE_MAXIMUM if unit.facts.pin:
            return Code.PINNED, f"{change}: pinned to {unit.ceiling} (edl.dev/pin)"
        case Code.ABOVE_MAXIMUM if unit.sizes:
            return Code.ABOVE_MAXIMUM, f"{change}: {unit.size} is the nearest size that it may have"
        case Code.ABOVE_MAXIMUM:
            return Code.ABOVE_MAXIMUM, f"{change}: above {unit.facts.max_name} {unit.ceiling}"
        case Code.REFUSED:
            return Code.REFUSED, f"{change}: its pods are refused, which is tried again later: {unit.shrink_causes[0]}"
        case Code.WITHDRAWN:
            pods = count(int(unit.shrink_causes[0]), "instance")
            return Code.WITHDRAWN, f"{change}: {pods} could not be placed for {REFUSED_FOR:.0f} s, tried again later"
        case Code.FASTER:
            return Code.FASTER, f"{change}: it is faster with {unit.size}"
        case Code.GATHERED:
            return Code.GATHERED, f"{change}: its {unit.size} are together now, the others leave"
        case Code.UNPLACEABLE:
            pods = count(int(unit.shrink_causes[0]), "instance")
            return Code.UNPLACEABLE, f"{change}: no node has room for {pods} that it was granted"
    return unit.shrink_reason, f"{change}: {_VERBS[unit.shrink_reason]} {_listed(unit.shrink_causes)}"


def _listed(causes: Sequence[str]) -> str:
    more = f" and {len(causes) - SHOWN} more" if len(causes) > SHOWN else ""
    return ", ".join(causes[:SHOWN]) + more


_VERBS = {
    Code.MADE_ROOM: "makes room for",
    Code.EVENED: "evens out shares with",
    Code.YIELDED: "more is made of them by",
    Code.SCALED: "its user asked for",
}


def _larger(cycle: Cycle, unit: Unit, change: int) -> tuple[Code, str]:
    if unit.optimistic:
        why = "pods are created at once" if unit.facts.admission == "create" else "starts optimistically"
        lacking = (
            blocker_message(cycle, unit.blocker, unit.facts) if unit.blocker is not None else "there is no room yet"
        )
        return Code.OPTIMISTIC, f"+{change}: {why}, though {lacking}"
    known = cycle.user_sizes.get(unit.key)
    if known is not None and known.size == unit.size:
        return Code.SCALED, f"+{change}: {user_message(known)}"
    if not (unit.admitted or unit.grew):
        return Code.GRANTED, f"+{change}: {_missing_text(cycle, unit, change)}"
    if unit.because:
        return Code.STARTED if unit.admitted else Code.GROWN, f"+{change}: {unit.because}"
    free = _free_text(cycle, unit)
    if unit.admitted and unit.size == unit.floor:
        return Code.STARTED, f"+{change}: starts with its minimum; {free}; limited by {_limit_text(cycle, unit)}"
    code = Code.STARTED if unit.admitted else Code.GROWN
    return code, f"+{change}: {free}; limited by {_limit_text(cycle, unit)}"


def _missing_text(cycle: Cycle, unit: Unit, missing: int) -> str:
    """Why it has fewer instances than its last target."""
    facts = unit.facts
    which = f"{missing} of its {count(unit.size, 'instance')}"
    if facts.refusal:
        return f"{which} cannot be made: {facts.refusal}"
    since = facts.last_scale_time
    lost = facts.started and (since is None or cycle.now - since >= MADE_WITHIN)
    return f"{which} {_are(missing)} missing and {_are(missing)} being {'replaced' if lost else 'made'}"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _free_text(cycle: Cycle, unit: Unit) -> str:
    """What was free of the resource that matters most to the unit."""
    axes = cycle.snapshot.axes
    if unit.role is not None and unit.role.shape.gpus:
        free = sum(cycle.cluster.free_before[axis] for axis in axes.gpus)
        total = sum(cycle.cluster.capacity[axis] for axis in axes.gpus)
        return f"{free} of {total} GPUs were free"
    free, total = cycle.cluster.free_before[0], cycle.cluster.capacity[0]
    return f"{show(CPU, free).removesuffix(' CPU')} of {show(CPU, total)} were free"


def _limit_text(cycle: Cycle, unit: Unit) -> str:
    if unit.size >= unit.ceiling:
        return f"its fixed size: {unit.facts.fixed}" if unit.facts.fixed else unit.facts.max_name
    match unit.blocker.code if unit.blocker is not None else None:
        case Code.LOAD:
            return f"the load cap of {cycle.settings.max_load} of the CPU"
        case Code.QUOTA:
            return "its quota"
        case Code.PROMISED:
            return "the limits of all pods (requests where they set no limit)"
        case Code.STARTING:
            return "replicas, the size to start with"
        case Code.BACKOFF:
            return "the back-off of a shape that the cluster refused"
    return "what is free"
