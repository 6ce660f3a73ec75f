"""What stands in the way, in words and with the numbers that a person needs to believe them."""

from collections.abc import Sequence

from edl.scheduler.cycle import Cycle
from edl.scheduler.facts import NOWHERE, JobFacts, RoleFacts, Shape
from edl.scheduler.reasons import Code, Lack
from edl.scheduler.resources import CPU, MEMORY, PODS, show


def missing(cycle: Cycle, lack: Lack, facts: JobFacts) -> str:
    """What a job lacks."""
    if lack.words:
        return lack.words
    role = facts.roles[lack.role] if lack.role < len(facts.roles) else None
    match lack.code:
        case Code.NO_ROOM | Code.UNPLACEABLE if role is not None:
            return room_in_words(cycle, role.shape, role.name, lack.placed, lack.needed)
        case Code.QUOTA:
            return _quota_in_words(cycle, lack)
        case Code.LOAD:
            return _load_in_words(cycle)
        case Code.PROMISED:
            return _promised_in_words(cycle, lack)
    return _other_words(cycle, lack, facts, role)


def _other_words(cycle: Cycle, lack: Lack, facts: JobFacts, role: RoleFacts | None) -> str:
    match lack.code:
        case Code.AT_MAXIMUM | Code.ABOVE_MAXIMUM:
            return f"at {facts.max_name}"
        case Code.FIXED:
            return lack.other or "not elastic"
        case Code.FROZEN:
            return f"frozen for another {lack.seconds:.0f} s"
        case Code.OVERTAKEN:
            return f"{lack.other} has waited longest and comes first"
        case Code.ROOM_COMING:
            return f"room is being made{lack.other}"
        case Code.NOT_WORTHWHILE:
            pause = facts.rescale_seconds or 0.0
            return f"fewer than {lack.needed} more would not win back its pause of {pause:.0f} s in time"
    return _short_words(cycle, lack, role)


def _short_words(cycle: Cycle, lack: Lack, role: RoleFacts | None) -> str:
    what = role.name if role is not None else "pod"
    match lack.code:
        case Code.BACKOFF:
            again = max(0.0, lack.seconds - cycle.now)
            return f"the cluster refused such a {what} before; it is tried again in {again:.0f} s"
        case Code.REFUSED:
            return f"the namespace refuses such a {what}: {lack.other}"
        case Code.PINNED:
            return "pinned (edl.dev/pin)"
        case Code.PAUSED:
            return "paused"
        case Code.FINISHING:
            return "some of its instances are done already"
        case Code.MOVED:
            return "it has just been moved"
    return str(lack.code)


def room_in_words(cycle: Cycle, shape: Shape, what: str, placed: int = 0, needed: int = 1) -> str:
    """Which resource is the one that is missing, and how close the best node comes."""
    key = shape.index, what, placed, needed
    words = cycle.said.get(key)
    if words is None:
        words = cycle.said[key] = _room(cycle, shape, what, placed, needed)
    return words


def _room(cycle: Cycle, shape: Shape, what: str, placed: int, needed: int) -> str:
    board, axes = cycle.board, cycle.snapshot.axes
    allowed = board.allowed_nodes(shape.where)
    if not allowed:
        return f"no usable node suits a {what} ({cycle.snapshot.excluded[shape.where] or 'there is none'})"
    if placed:
        return f"needs {count(needed, what)} of {needs_in_words(cycle, shape)} each, there is room for {placed}"
    worst = NOWHERE
    later = board.later
    for place, amount in shape.needs:
        if (worst == NOWHERE or place in axes.gpus) and max([later[node][place] for node in allowed]) < amount:
            worst = place
    if worst == NOWHERE:
        return f"no node has room for a {what} ({all_needs_in_words(cycle, shape)}) all at once"
    name = axes.names[worst]
    if name == PODS:
        return "every node has as many pods as it takes"
    nodes, wanted = cycle.snapshot.nodes, shape.requests[worst]
    largest, has = _most([nodes[node].capacity[worst] for node in allowed])
    if has < wanted:
        node = board.name(allowed[largest])
        return f"needs {show(name, wanted)} on one node, the largest has {_bare(name, has)} ({node})"
    best, has = _most([later[node][worst] for node in allowed])
    free, node = _bare(name, max(has, 0)), board.name(allowed[best])
    return f"needs {show(name, wanted)} on one node, most free on one node is {free} ({node})"


def _most(amounts: Sequence[int]) -> tuple[int, int]:
    """The first place of the largest amount, and that amount."""
    largest = max(amounts)
    return amounts.index(largest), largest


def _bare(name: str, units: int) -> str:
    """The number without its unit where the unit has just been said."""
    words = show(name, units)
    return words if name == MEMORY or name.endswith("storage") else words.split()[0]


def _quota_in_words(cycle: Cycle, lack: Lack) -> str:
    account = cycle.snapshot.accounts[lack.account]
    left = max(0, cycle.board.tax_later[lack.account])
    base = account.resource.removeprefix("requests.").removeprefix("limits.")
    have = f"{_bare(base, left)} of {show(base, account.hard)} left"
    which = f" ({account.resource})" if account.resource not in (base, CPU, MEMORY) else ""
    return f"quota {account.namespace}/{account.quota} has {have}{which}, {_bare(base, lack.needed)} needed"


def _load_in_words(cycle: Cycle) -> str:
    board = cycle.board
    taken = show(CPU, board.capacity[0] - board.spare_later[0]).removesuffix(" CPU")
    cap = cycle.settings.max_load
    return f"the load cap of {cap} leaves no CPU to grow into ({taken} of {show(CPU, board.capacity[0])} taken)"


def _promised_in_words(cycle: Cycle, lack: Lack) -> str:
    name = CPU if lack.placed == 0 else MEMORY
    spare, whole = max(0, cycle.board.spare_later[lack.placed]), cycle.board.capacity[lack.placed]
    if lack.needed > whole:
        return f"needs {show(name, lack.needed)} in all, usable nodes have {show(name, whole)}"
    return f"needs {show(name, lack.needed)} of limits, {show(name, spare)} is not promised yet"


def needs_in_words(cycle: Cycle, shape: Shape) -> str:
    """What a pod asks for, by its dearest resource."""
    axes = cycle.snapshot.axes
    for place in (*axes.gpus, *range(3, len(axes.names)), 0, 1):
        if shape.requests[place]:
            return show(axes.names[place], shape.requests[place])
    return "nothing"


def all_needs_in_words(cycle: Cycle, shape: Shape) -> str:
    names = cycle.snapshot.axes.names
    parts = [show(names[place], amount) for place, amount in shape.needs if names[place] != PODS]
    return " and ".join(parts) or "a pod"


def count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
