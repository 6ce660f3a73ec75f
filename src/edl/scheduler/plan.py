"""The scheduling cycle: `plan(snapshot, memory, now)` gives every job a size and a reason. Pure and deterministic.

 1. foreign pods that fit get the room they fit into;
 2. jobs are settled on what they hold, and what their users have asked for is obeyed;
 3. foreign pods that do not fit are made room for;
 4. minima are admitted, as gangs, others shrinking for them;
 5. jobs grow into what is free now;
 6. if nobody moved in all this, shares are evened out (cfs);
 7. every unit says why it has its size.

Each step ends: 1 to 4 pass over their lists once, and every turn of their inner loops seats a pod of a finite list
or shrinks somebody, nobody below a minimum; `growth` and `evening` bring their own proofs. Shrinking (2 to 4) never
follows growth in a cycle but in 6, which gives nothing now, so no instance goes back and forth.
"""

from collections.abc import Mapping

import msgspec

from edl.scheduler.admission import admit
from edl.scheduler.cycle import Cycle
from edl.scheduler.evening import even_out
from edl.scheduler.explain import reason_for
from edl.scheduler.facts import NOWHERE, JobFacts, Snapshot
from edl.scheduler.foreign import ForeignOutcome, ForeignService
from edl.scheduler.growth import grow, obey_users
from edl.scheduler.memory import Memory
from edl.scheduler.reasons import Code
from edl.scheduler.settings import PolicyName, Settings
from edl.scheduler.settle import settle
from edl.scheduler.unit import Sort, Unit

ByNode = Mapping[str, int]
_NONE: Mapping[str, ByNode] = {}


class Decision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one job gets. `placements`: role to node to new pods; `leavers`: likewise those that go, "" for no node."""

    kind: str
    api_version: str
    namespace: str
    name: str
    uid: str
    current: int
    target: int
    min: int
    max: int
    lead: str
    """The role that the size counts."""
    roles: Mapping[str, int]
    code: Code
    reason: str
    placements: Mapping[str, ByNode] = _NONE
    leavers: Mapping[str, ByNode] = _NONE


class ClusterUse(msgspec.Struct, frozen=True):
    """By resource: millicores, bytes, devices. Of usable nodes."""

    capacity: Mapping[str, int]
    used_before: Mapping[str, int]
    used_after: Mapping[str, int]


class Plan(msgspec.Struct, frozen=True):
    policy: PolicyName
    now: float
    jobs: tuple[Decision, ...]
    foreign: tuple[ForeignOutcome, ...]
    cluster: ClusterUse
    memory: Memory
    steps: int = 0
    """Steps of growth that were tried: a measure of the work."""
    wake: float | None = None
    """When the first freezing window ends: the same cluster may be given another plan then."""


def plan(snapshot: Snapshot, memory: Memory | None = None, *, now: float, settings: Settings | None = None) -> Plan:
    cycle = Cycle(snapshot, memory or Memory(), now, settings or Settings())
    foreign = ForeignService(cycle)
    foreign.reserve()
    settle(cycle)
    obey_users(cycle)
    foreign.make_room()
    admit(cycle)
    grow(cycle)
    if cycle.policy.evens_out and not any(unit.moved or unit.grew or unit.admitted for unit in cycle.active):
        even_out(cycle)
    return Plan(
        policy=cycle.policy.name,
        now=now,
        jobs=tuple([_decision(cycle, unit) for unit in cycle.units]),
        foreign=foreign.in_order(),
        cluster=_use(cycle),
        memory=_remember(cycle),
        steps=cycle.steps,
        wake=_wake(cycle),
    )


def _wake(cycle: Cycle) -> float | None:
    """Of jobs whose size could change; who has just been given another one here is not in a window yet."""
    elastic = (unit for unit in cycle.active if unit.facts.last_scale is not None and unit.floor < unit.ceiling)
    ends = [frozen for unit in elastic if (frozen := unit.frozen_for(cycle.now)) > 0]
    return cycle.now + min(ends) if ends else None


def _decision(cycle: Cycle, unit: Unit) -> Decision:
    facts = unit.facts
    code, reason = reason_for(cycle, unit)
    target = facts.current if facts.state == "invalid" else unit.size
    return Decision(
        kind=facts.kind,
        api_version=facts.api_version,
        namespace=facts.namespace,
        name=facts.name,
        uid=facts.uid,
        current=facts.current,
        target=target,
        min=facts.min,
        max=facts.max,
        lead=unit.role.name if unit.role is not None else "",
        roles=facts.roles_at(unit.size),
        code=code,
        reason=reason,
        placements=_placements(cycle, unit) if unit.seats else _NONE,
        leavers=_by_role(facts, unit.leavers) if unit.leavers else _NONE,
    )


def _placements(cycle: Cycle, unit: Unit) -> Mapping[str, ByNode]:
    """Where pods that do not exist yet are to go."""
    found: dict[str, dict[str, int]] = {}
    for role, seats in zip(unit.facts.roles, unit.seats, strict=True):
        for (node, sort), pods in sorted(seats.items()):
            if pods > 0 and sort in (Sort.FRESH, Sort.COMING) and node != NOWHERE:
                here = found.setdefault(role.name, {})
                here[cycle.board.name(node)] = here.get(cycle.board.name(node), 0) + pods
    return found or _NONE


def _by_role(facts: JobFacts, leavers: tuple[dict[str, int], ...]) -> Mapping[str, ByNode]:
    found: dict[str, ByNode] = {}
    for role, nodes in zip(facts.roles, leavers, strict=True):
        leaving = {node: pods for node, pods in sorted(nodes.items()) if pods > 0}
        if leaving:
            found[role.name] = leaving
    return found or _NONE


def _use(cycle: Cycle) -> ClusterUse:
    names, board = cycle.snapshot.axes.names, cycle.board
    before = [have - free for have, free in zip(board.capacity, board.free_before, strict=True)]
    after = [have - free for have, free in zip(board.capacity, board.total(board.later), strict=True)]
    return ClusterUse(
        capacity=dict(zip(names, board.capacity, strict=True)),
        used_before=dict(zip(names, before, strict=True)),
        used_after=dict(zip(names, after, strict=True)),
    )


def _room(cycle: Cycle, unit: Unit) -> dict[str, dict[str, int]]:
    room: dict[str, dict[str, int]] = {}
    for (role, node), pods in sorted(unit.claims.items()):
        if pods > 0:
            room.setdefault(unit.facts.roles[role].name, {})[cycle.board.name(node)] = pods
    return room


def _remember(cycle: Cycle) -> Memory:
    active = cycle.active
    return Memory(
        entries={unit.key: unit.entry for unit in active if unit.entry > 0},
        waiting=cycle.waiting,
        starts={unit.key: unit.facts.start for unit in active},
        promises=cycle.promises,
        rooms={unit.key: _room(cycle, unit) for unit in active if unit.reserved or unit.promised},
        shapes=cycle.shapes,
        served=cycle.served,
        owners=cycle.owners,
    )
