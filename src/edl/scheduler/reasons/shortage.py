"""Messages of blockers, with the numbers that a person needs to believe them."""

from collections.abc import Callable, Sequence
from operator import itemgetter

from edl.api.kubernetes import timestamp
from edl.scheduler.cycle import Cycle
from edl.scheduler.memory import UserSize
from edl.scheduler.placement.resources import CPU, MEMORY, PODS, show
from edl.scheduler.reasons.codes import Blocker, Code
from edl.scheduler.snapshot.types import NOWHERE, JobFacts, Shape


def blocker_message(cycle: Cycle, blocker: Blocker, facts: JobFacts) -> str:
    """What keeps a job from more."""
    if blocker.message:
        return blocker.message
    message = _MESSAGES.get(blocker.code)
    return message(cycle, blocker, facts) if message is not None else str(blocker.code)


def _no_room_message(cycle: Cycle, blocker: Blocker, facts: JobFacts) -> str:
    if blocker.role >= len(facts.roles):
        return str(blocker.code)
    role = facts.roles[blocker.role]
    return capacity_message(cycle, role.shape, role.name, blocker.placed, blocker.needed)


def _backoff_message(cycle: Cycle, blocker: Blocker, facts: JobFacts) -> str:
    again = max(0.0, blocker.seconds - cycle.now)
    return f"the cluster refused such a {_role_name(blocker, facts)} before; it is tried again in {again:.0f} s"


def _not_worthwhile_message(cycle: Cycle, blocker: Blocker, facts: JobFacts) -> str:
    pause = facts.rescale_seconds or 0.0
    return f"fewer than {blocker.needed} more would not win back its pause of {pause:.0f} s in time"


def _role_name(blocker: Blocker, facts: JobFacts) -> str:
    return facts.roles[blocker.role].name if blocker.role < len(facts.roles) else "pod"


def capacity_message(cycle: Cycle, shape: Shape, what: str, placed: int = 0, needed: int = 1) -> str:
    """Names the resource that is short, and how close the best node comes."""
    key = shape.index, what, placed, needed
    message = cycle.messages.get(key)
    if message is None:
        message = cycle.messages[key] = _capacity_message(cycle, shape, what, placed, needed)
    return message


def _capacity_message(cycle: Cycle, shape: Shape, what: str, placed: int, needed: int) -> str:
    cluster, axes = cycle.cluster, cycle.snapshot.axes
    allowed = cluster.allowed_nodes(shape.node_match)
    if not allowed:
        return f"no usable node suits a {what} ({cycle.snapshot.excluded[shape.node_match] or 'there is none'})"
    if placed:
        each = _short_text(cycle, shape, allowed, needed)
        return f"needs {count(needed, what)} of {each} each, there is room for {placed}"
    worst = NOWHERE
    later = [cluster.free_later[node] for node in allowed]
    for axis, amount in shape.needs:
        if (worst == NOWHERE or axis in axes.gpus) and max(map(itemgetter(axis), later)) < amount:
            worst = axis
    if worst == NOWHERE:
        return f"no node has room for a {what} ({all_requests_text(cycle, shape)}) all at once"
    name = axes.names[worst]
    if name == PODS:
        return "every node has as many pods as it takes"
    nodes, wanted = cycle.snapshot.nodes, shape.requests[worst]
    largest, has = _most([nodes[node].capacity[worst] for node in allowed])
    if has < wanted:
        node = cluster.name(allowed[largest])
        return f"needs {show(name, wanted)} on one node, the largest has {_bare(name, has)} ({node})"
    best, has = _most([free[worst] for free in later])
    free, node = _bare(name, max(has, 0)), cluster.name(allowed[best])
    return f"needs {show(name, wanted)} on one node, most free on one node is {free} ({node})"


def _short_text(cycle: Cycle, shape: Shape, allowed: Sequence[int], needed: int) -> str:
    """What a pod asks for of the resources that do not suffice for all of them; of all, if no single one is short."""
    names, rows = cycle.snapshot.axes.names, [cycle.cluster.free_later[node] for node in allowed]
    parts = [
        show(names[axis], amount)
        for axis, amount in shape.needs
        if names[axis] != PODS and sum(max(0, row[axis]) // amount for row in rows) < needed
    ]
    return " and ".join(parts) or all_requests_text(cycle, shape)


def _most(amounts: Sequence[int]) -> tuple[int, int]:
    """The first index of the largest amount, and that amount."""
    largest = max(amounts)
    return amounts.index(largest), largest


def _bare(name: str, units: int) -> str:
    """The number without its unit, where the unit is clear from before."""
    message = show(name, units)
    return message if name == MEMORY or name.endswith("storage") else message.split()[0]


def _quota_message(cycle: Cycle, blocker: Blocker, facts: JobFacts) -> str:
    quota_line = cycle.snapshot.quota_lines[blocker.quota_line]
    left = max(0, cycle.cluster.quota_later[blocker.quota_line])
    base = quota_line.resource.removeprefix("requests.").removeprefix("limits.")
    have = f"{_bare(base, left)} of {show(base, quota_line.hard)} left"
    which = f" ({quota_line.resource})" if quota_line.resource not in (base, CPU, MEMORY) else ""
    return f"quota {quota_line.namespace}/{quota_line.quota} has {have}{which}, {_bare(base, blocker.needed)} needed"


def _load_message(cycle: Cycle, blocker: Blocker, facts: JobFacts) -> str:
    cluster = cycle.cluster
    taken = show(CPU, cluster.capacity[0] - cluster.spare_later[0]).removesuffix(" CPU")
    cap = cycle.settings.max_load
    return f"the load cap of {cap} leaves no CPU to grow into ({taken} of {show(CPU, cluster.capacity[0])} taken)"


def _promised_message(cycle: Cycle, blocker: Blocker, facts: JobFacts) -> str:
    name = CPU if blocker.axis == 0 else MEMORY
    spare, whole = max(0, cycle.cluster.spare_later[blocker.axis]), cycle.cluster.capacity[blocker.axis]
    if blocker.needed > whole:
        return f"needs {show(name, blocker.needed)} in all, usable nodes have {show(name, whole)}"
    left = f"the limits of other pods (requests where they set no limit) leave {show(name, spare)}"
    return f"needs {show(name, blocker.needed)}, {left}"


def request_text(cycle: Cycle, shape: Shape) -> str:
    """What a pod asks for, by its dearest resource."""
    axes = cycle.snapshot.axes
    for axis in (*axes.gpus, *range(3, len(axes.names)), 0, 1):
        if shape.requests[axis]:
            return show(axes.names[axis], shape.requests[axis])
    return "nothing"


def all_requests_text(cycle: Cycle, shape: Shape) -> str:
    names = cycle.snapshot.axes.names
    parts = [show(names[axis], amount) for axis, amount in shape.needs if names[axis] != PODS]
    return " and ".join(parts) or "a pod"


def user_message(known: UserSize) -> str:
    return f"its user asked for {known.size}, which is held until {timestamp.text(known.until)}"


def count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


_MESSAGES: dict[Code, Callable[[Cycle, Blocker, JobFacts], str]] = {
    Code.NO_ROOM: _no_room_message,
    Code.UNPLACEABLE: _no_room_message,
    Code.QUOTA: _quota_message,
    Code.LOAD: _load_message,
    Code.PROMISED: _promised_message,
    Code.BACKOFF: _backoff_message,
    Code.NOT_WORTHWHILE: _not_worthwhile_message,
    Code.AT_MAXIMUM: lambda cycle, blocker, facts: f"at {facts.max_name}",
    Code.ABOVE_MAXIMUM: lambda cycle, blocker, facts: f"at {facts.max_name}",
    Code.FIXED: lambda cycle, blocker, facts: blocker.detail or "not elastic",
    Code.FROZEN: lambda cycle, blocker, facts: f"frozen for another {blocker.seconds:.0f} s",
    Code.OVERTAKEN: lambda cycle, blocker, facts: f"{blocker.detail} has waited longest and keeps what it needs",
    Code.ROOM_COMING: lambda cycle, blocker, facts: f"room is being made{blocker.detail}",
    Code.REFUSED: lambda cycle, blocker, facts: (
        f"the namespace refuses such a {_role_name(blocker, facts)}: {blocker.detail}"
    ),
    Code.PINNED: lambda cycle, blocker, facts: "pinned (edl.dev/pin)",
    Code.PAUSED: lambda cycle, blocker, facts: "paused",
    Code.FINISHING: lambda cycle, blocker, facts: "some of its instances are done already",
    Code.STARTING: lambda cycle, blocker, facts: "it has just started with the size that it names",
    Code.MOVED: lambda cycle, blocker, facts: "it has just been moved",
}
