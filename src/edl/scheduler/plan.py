"""The scheduling cycle: `plan(snapshot, memory, now)` gives every job a size and a reason. Pure and deterministic.

 1. foreign pods that fit get the capacity they fit into;
 2. jobs hold their last targets, and sizes that users have set are applied;
 3. capacity is reclaimed for foreign pods that do not fit;
 4. minima are admitted, as gangs, others shrinking for them;
 5. jobs grow into what is free now;
 6. if nobody moved in all this, shares are rebalanced (cfs);
 7. every target gets its reason.

Each step ends: 1 to 4 pass over their lists once, and every turn of their inner loops places a pod of a finite list
or shrinks somebody, nobody below a minimum; `growth` and `rebalance` bring their own proofs. Shrinking (2 to 4) never
follows growth in a cycle but in 6, which gives nothing now, so no instance goes back and forth.
"""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from edl.scheduler.cluster_use import ClusterUse, cluster_use
from edl.scheduler.cycle import Cycle
from edl.scheduler.memory import Memory
from edl.scheduler.plan_cache import PlanCache
from edl.scheduler.reasons.codes import Code
from edl.scheduler.reasons.explain import reason_for
from edl.scheduler.role_grants import by_name
from edl.scheduler.settings import REFUSED_FOR, Settings
from edl.scheduler.snapshot.types import NOWHERE, JobFacts, Snapshot
from edl.scheduler.steps.admission import admit
from edl.scheduler.steps.foreign_pods import ForeignOutcome, ForeignService
from edl.scheduler.steps.growth import grow
from edl.scheduler.steps.hold import hold
from edl.scheduler.steps.rebalance import rebalance
from edl.scheduler.steps.user_sizes import apply_user_sizes
from edl.scheduler.unit import PlacementState, Unit

ByNode = Mapping[str, int]
_NONE: Mapping[str, ByNode] = {}
_NO_ROLES: ByNode = {}


class Decision(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The target of one job. `placements`: role to node to new pods; `leavers`: the same of those to go, "": none."""

    kind: str
    api_version: str
    namespace: str
    name: str
    uid: str
    current: int
    target: int
    minimum: int | None
    """The minimum in force; None without any instance."""
    held: tuple[int, float] | None = None
    """A size that its user asked for, and until when it is held."""
    request: str = ""
    """The last request for a size that was obeyed."""
    in_force: Mapping[str, int] = _NO_ROLES
    """Pods of the other roles in the minimum in force, if fewer than were granted."""
    min: int
    max: int
    lead: str
    """The role that the size counts."""
    roles: Mapping[str, int]
    code: Code
    reason: str
    placements: Mapping[str, ByNode] = _NONE
    leavers: Mapping[str, ByNode] = _NONE


class Plan(msgspec.Struct, frozen=True):
    policy: str
    now: float
    jobs: tuple[Decision, ...]
    foreign: tuple[ForeignOutcome, ...]
    cluster: ClusterUse
    memory: Memory
    steps: int = 0
    """Steps of growth that were tried: a measure of the work."""
    requeue_at: float | None = None
    """When the first freezing window ends, or a refused pod is withdrawn: the same cluster gets another plan then."""


def plan(
    snapshot: Snapshot,
    memory: Memory | None = None,
    *,
    now: float,
    settings: Settings | None = None,
    cache: PlanCache | None = None,
) -> Plan:
    """`cache`: spares work where jobs are the same as in the last plan that was given it, and changes nothing."""
    cycle = Cycle(snapshot, memory or Memory(), now, settings or Settings(), cache or PlanCache())
    foreign = ForeignService(cycle)
    foreign.reserve()
    hold(cycle)
    apply_user_sizes(cycle)
    foreign.reclaim()
    admit(cycle)
    grow(cycle)
    if cycle.policy.rebalances and not any(unit.moved or unit.grew or unit.admitted for unit in cycle.active):
        rebalance(cycle)
    return Plan(
        policy=cycle.policy.name,
        now=now,
        jobs=tuple([_decision(cycle, unit) for unit in cycle.units]),
        foreign=foreign.in_order(),
        cluster=cluster_use(cycle),
        memory=_remember(cycle),
        steps=cycle.steps,
        requeue_at=_requeue_at(cycle),
    )


def _requeue_at(cycle: Cycle) -> float | None:
    """When time alone changes the plan: a freezing window ends, or a pod was refused for so long that it is withdrawn.

    Of jobs whose size could change; one that this plan has changed is not in a window yet."""
    elastic = (unit for unit in cycle.active if unit.facts.last_scale_time is not None and unit.floor < unit.ceiling)
    ends = [unit.frozen_for(cycle.now) for unit in elastic]
    unbound = (pod for unit in cycle.active for pods in unit.facts.unbound for pod in pods)
    ends += [pod.refused_since + REFUSED_FOR - cycle.now for pod in unbound if pod.refused_since is not None]
    ahead = [seconds for seconds in ends if seconds > 0]
    return cycle.now + min(ahead) if ahead else None


def _decision(cycle: Cycle, unit: Unit) -> Decision:
    facts = unit.facts
    code, reason = reason_for(cycle, unit)
    target = facts.current if facts.state == "invalid" else unit.size
    minimum = unit.minimum_in_force if facts.state == "active" and target else None
    known = cycle.user_sizes.get(unit.key) if cycle.user_sizes else None
    request = cycle.requests.get(unit.key, "") if cycle.requests else ""
    if known is not None or request or unit.placements or unit.in_force is not None:
        decision = _bare_decision(unit, target, minimum, code, reason)
        held = (known.size, known.until) if known is not None else None
        decision = replace(decision, held=held, request=request, in_force=_in_force(unit))
        if not unit.placements:
            return decision
        return replace(decision, placements=_placements(cycle, unit), leavers=_by_role(facts, unit.leavers))
    last = unit.last.decision
    made_of = target, minimum, code, reason
    if isinstance(last, Decision) and (last.target, last.minimum, last.code, last.reason) == made_of:
        return last  # all else of it follows from the facts, which are the same object
    decision = unit.last.decision = _bare_decision(unit, target, minimum, code, reason)
    return decision


def _bare_decision(unit: Unit, target: int, minimum: int | None, code: Code, reason: str) -> Decision:
    facts = unit.facts
    return Decision(  # with at most 15 arguments: CPython calls more of them by way of a dict
        kind=facts.kind,
        api_version=facts.api_version,
        namespace=facts.namespace,
        name=facts.name,
        uid=facts.uid,
        current=facts.current,
        target=target,
        minimum=minimum,
        min=facts.min,
        max=facts.max,
        lead=unit.role.name if unit.role is not None else "",
        roles=facts.roles_at(unit.size) if unit.granted is None else _limited_roles(unit),
        code=code,
        reason=reason,
    )


def _limited_roles(unit: Unit) -> ByNode:
    facts = unit.facts
    return {role.name: count for role, count in zip(facts.roles, unit.pods_at(unit.size), strict=True)}


def _in_force(unit: Unit) -> ByNode:
    """A job that gave up some of its size has no more of the other roles in force than it has."""
    if unit.in_force is None or not unit.size:
        return _NO_ROLES
    return by_name(unit.facts, tuple(map(min, unit.in_force, unit.pods_at(unit.size))))


def _placements(cycle: Cycle, unit: Unit) -> Mapping[str, ByNode]:
    """The nodes of pods that do not exist yet."""
    found: dict[str, dict[str, int]] = {}
    for role, placements in zip(unit.facts.roles, unit.placements, strict=True):
        for (node, state), pods in sorted(placements.items()):
            if pods > 0 and state in (PlacementState.NEW, PlacementState.DEFERRED) and node != NOWHERE:
                here = found.setdefault(role.name, {})
                here[cycle.cluster.name(node)] = here.get(cycle.cluster.name(node), 0) + pods
    return found or _NONE


def _by_role(facts: JobFacts, leavers: tuple[dict[str, int], ...]) -> Mapping[str, ByNode]:
    found: dict[str, ByNode] = {}
    for role, nodes in zip(facts.roles, leavers, strict=True):
        leaving = {node: pods for node, pods in sorted(nodes.items()) if pods > 0}
        if leaving:
            found[role.name] = leaving
    return found or _NONE


def _reservation(cycle: Cycle, unit: Unit) -> dict[str, dict[str, int]]:
    reservation: dict[str, dict[str, int]] = {}
    for (role, node), pods in sorted(unit.reservations.items()):
        if pods > 0:
            reservation.setdefault(unit.facts.roles[role].name, {})[cycle.cluster.name(node)] = pods
    return reservation


def _remember(cycle: Cycle) -> Memory:
    active = cycle.active
    return Memory(
        entries={unit.key: unit.entry for unit in active if unit.entry > 0},
        waiting=cycle.waiting,
        starts=cycle.cache.starts,
        minima=cycle.cache.minima,
        user_sizes=cycle.user_sizes,
        requests=cycle.requests,
        edits=cycle.cache.edits,
        open_edits=frozenset([unit.key for unit in active if unit.edited and unit.size == unit.initial_size]),
        starting=cycle.starting,
        promises=cycle.promises,
        relocations=cycle.relocations,
        reservations={unit.key: _reservation(cycle, unit) for unit in active if unit.reserved or unit.promised},
        shapes=cycle.shapes,
        refused=cycle.refused,
        served=cycle.served,
        owners=cycle.owners,
    )
