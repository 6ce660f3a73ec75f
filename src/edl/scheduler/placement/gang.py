"""Gang placement: several pods together, or none: the minimum of a job with all its roles, or one step of growth.

Greedy, hardest pods first. Where greed fails a bounded search tries to do better, so that a small gang that fits at
all is not kept waiting by the order in which its pods were tried.
"""

from collections.abc import Sequence

from edl.scheduler.placement.cluster_state import ClusterState
from edl.scheduler.placement.placements import place_pod
from edl.scheduler.reasons.codes import Blocker, Code
from edl.scheduler.snapshot.types import NOWHERE, Shape
from edl.scheduler.unit import PlacementState, Unit

SEARCH_PODS = 24
SEARCH_STEPS = 400


def place_gang(cluster: ClusterState, unit: Unit, pods: Sequence[int], *, now: bool, growth: bool) -> Blocker | None:
    """Places so many pods of every role. If not all of them fit, returns the blocker, and nothing has changed.

    `now`: on capacity that is free now; else it is only reserved for them, and placed in a later plan.
    `growth`: it is more than the minimum, so the load cap holds.
    """
    if blocker := limits_blocker(cluster, unit, pods, now=now, growth=growth):
        return blocker
    mark = cluster.mark()
    blocker = None
    for role in hardest_first(unit, pods):
        if blocker := _place_role(cluster, unit, role, pods[role], now):
            break
    if blocker is None:
        return None
    cluster.rollback(mark)
    return None if _search(cluster, unit, pods, now) else blocker


def limits_blocker(
    cluster: ClusterState, unit: Unit, pods: Sequence[int], *, now: bool, growth: bool
) -> Blocker | None:
    """The first limit that forbids these pods whatever the nodes: refusal, back-off, quota, load, limits."""
    for role, (facts, count) in enumerate(zip(unit.facts.roles, pods, strict=True)):
        if count > 0:
            if facts.problem:
                return Blocker(Code.REFUSED, role=role, detail=facts.problem)
            if facts.shape.index in cluster.backoff:
                return Blocker(Code.BACKOFF, role=role, seconds=cluster.backoff[facts.shape.index])
    cpu, memory, charges = demand(cluster, unit, pods)
    for quota_line, amount in charges.items():
        if cluster.quota_later[quota_line] < amount or (now and cluster.quota_now[quota_line] < amount):
            return Blocker(Code.QUOTA, quota_line=quota_line, needed=amount)
    for spare in (cluster.spare_later, cluster.spare_now) if now else (cluster.spare_later,):
        if growth and cpu <= spare[0] < cpu + cluster.idle_reserve:
            return Blocker(Code.LOAD)
        if cluster.by_limits and 0 < cpu > spare[0]:
            return Blocker(Code.PROMISED, needed=cpu)
        if cluster.by_limits and 0 < memory > spare[1]:
            return Blocker(Code.PROMISED, needed=memory, axis=1)
    return None


def overcommitted(cluster: ClusterState, unit: Unit, pods: Sequence[int]) -> Blocker | None:
    """The first limit that these pods, which are reserved already, exceed."""
    cpu, memory, charges = demand(cluster, unit, pods)
    for quota_line, amount in charges.items():
        if cluster.quota_later[quota_line] < 0:
            return Blocker(Code.QUOTA, quota_line=quota_line, needed=amount)
    if cluster.by_limits and cpu > 0 > cluster.spare_later[0]:
        return Blocker(Code.PROMISED, needed=cpu)
    if cluster.by_limits and memory > 0 > cluster.spare_later[1]:
        return Blocker(Code.PROMISED, needed=memory, axis=1)
    return None


def demand(cluster: ClusterState, unit: Unit, pods: Sequence[int]) -> tuple[int, int, dict[int, int]]:
    """Available CPU and memory, and quota, that so many pods of every role take."""
    cpu = memory = 0
    charges: dict[int, int] = {}
    for facts, count in zip(unit.facts.roles, pods, strict=True):
        if count > 0:
            commits = cluster.commits(facts.shape)
            cpu += commits[0] * count
            memory += commits[1] * count
            for quota_line, amount in facts.charges:
                charges[quota_line] = charges.get(quota_line, 0) + amount * count
    return cpu, memory, charges


def hardest_first(unit: Unit, pods: Sequence[int]) -> list[int]:
    def hardness(role: int) -> tuple[bool, int, int, int, int]:
        shape = unit.facts.roles[role].shape
        return not shape.rules, -shape.gpus, -shape.requests[0], -shape.requests[1], role

    return sorted((role for role, count in enumerate(pods) if count > 0), key=hardness)


def guard_of(unit: Unit, role: int) -> Shape | None:
    """The shape of the instances: the pods beside them should leave capacity that instances could use."""
    return unit.role.shape if unit.role is not None and role != unit.facts.lead else None


def _place_role(cluster: ClusterState, unit: Unit, role: int, count: int, now: bool) -> Blocker | None:
    shape, guard = unit.facts.roles[role].shape, guard_of(unit, role)
    reserved_nodes = list(unit.reserved_nodes.get(role, ()))
    for placed in range(count):
        node = cluster.find(shape, now=now, guard=guard, prefer=reserved_nodes.pop() if reserved_nodes else NOWHERE)
        if node == NOWHERE:
            return Blocker(Code.NO_ROOM, role=role, placed=placed, needed=count)
        place_or_reserve(cluster, unit, role, node, now)
    return None


def place_or_reserve(cluster: ClusterState, unit: Unit, role: int, node: int, now: bool) -> None:
    """Places on capacity that is free now; reserves capacity that will be."""
    if now:
        place_pod(cluster, unit, role, node, PlacementState.NEW)
    else:
        facts = unit.facts.roles[role]
        cluster.adjust(node, facts.shape, facts.charges, 0, -1)
        cluster.count(unit.reservations, (role, node), 1)


def _search(cluster: ClusterState, unit: Unit, pods: Sequence[int], now: bool) -> bool:
    """Depth first over nodes, pods of one role in the order of nodes, within a budget of steps."""
    roles = [facts for facts, count in zip(unit.facts.roles, pods, strict=True) if count > 0]
    if sum(pods) > SEARCH_PODS or (len(roles) == 1 and not roles[0].shape.rules):
        return False  # too large to search; or pods of one shape only, for which greed is exact
    queue = [role for role in hardest_first(unit, pods) for _ in range(pods[role])]
    choices = [
        cluster.allowed_nodes(facts.shape.node_match) if pods[role] else []
        for role, facts in enumerate(unit.facts.roles)
    ]
    steps = SEARCH_STEPS
    mark = cluster.mark()

    def place_from(position: int, after: int) -> bool:
        nonlocal steps
        if position == len(queue):
            return True
        role = queue[position]
        shape = unit.facts.roles[role].shape
        for node in choices[role]:
            steps -= 1
            if steps < 0:
                return False
            if node < after or not cluster.fits(node, shape, now):
                continue
            before = cluster.mark()
            place_or_reserve(cluster, unit, role, node, now)
            same = position + 1 < len(queue) and queue[position + 1] == role and not shape.rules
            if place_from(position + 1, node if same else 0):
                return True
            cluster.rollback(before)
        return False

    if place_from(0, 0):
        return True
    cluster.rollback(mark)
    return False
