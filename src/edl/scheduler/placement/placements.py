"""Places pods of a unit on nodes, removes them, and shrinks units. Every change is journaled in the cluster state.

What a removed placement gives back, and when, depends on its state.
"""

from collections.abc import Sequence

from edl.scheduler.placement.cluster_state import ClusterState
from edl.scheduler.snapshot.types import NOWHERE
from edl.scheduler.unit import PlacementState, Unit


def place_pod(
    cluster: ClusterState, unit: Unit, role: int, node: int, state: PlacementState, *, exists: bool = False
) -> None:
    """Places a pod. One that exists is charged to its quota already."""
    facts = unit.facts.roles[role]
    now = 0 if state is PlacementState.DEFERRED else -1
    cluster.adjust(node, facts.shape, () if exists else facts.charges, now, -1)
    cluster.count(unit.placements[role], (node, state), 1)
    if exists and state is PlacementState.DEFERRED:
        cluster.count(unit.existing[role], node, 1)


def remove_pod(cluster: ClusterState, unit: Unit, role: int, node: int, state: PlacementState) -> None:
    """Removes a pod. What runs keeps its capacity until it is gone; what does not frees it now, but not its quota."""
    facts = unit.facts.roles[role]
    cluster.count(unit.placements[role], (node, state), -1)
    if state is PlacementState.NEW:
        cluster.adjust(node, facts.shape, facts.charges, 1, 1)
    elif state is PlacementState.UNBOUND:
        cluster.adjust(node, facts.shape, (), 1, 1)
        cluster.adjust(NOWHERE, facts.shape, facts.charges, 0, 1)
        cluster.count(unit.leavers[role], "", 1)
    elif state is PlacementState.BOUND:
        cluster.adjust(node, facts.returned, facts.charges, 0, 1)
        cluster.count(unit.leavers[role], cluster.name(node), 1)
    elif unit.existing[role].get(node, 0) > 0:
        cluster.count(unit.existing[role], node, -1)
        cluster.adjust(node, facts.shape, facts.charges, 0, 1)
        cluster.count(unit.leavers[role], "", 1)
    else:
        cluster.adjust(node, facts.shape, facts.charges, 0, 1)


def placed_pods(unit: Unit, role: int) -> int:
    """Pods of a role that have a node, for sure or by plan, and those that are done and need none."""
    pods = sum(
        count
        for (node, state), count in unit.placements[role].items()
        if node != NOWHERE or state is PlacementState.BOUND
    )
    return pods + (unit.facts.done if role == unit.facts.lead else 0)


def complete(unit: Unit, size: int) -> bool:
    return all(placed_pods(unit, role) >= count for role, count in enumerate(unit.pods_at(size)))


def largest_size(unit: Unit, pods: Sequence[int]) -> int:
    """The largest size up to its own for which so many pods of each role suffice; 0 if not even its floor's do."""
    size = unit.size_within(min(unit.size, pods[unit.facts.lead])) if pods else 0
    while any(have < wanted for have, wanted in zip(pods, unit.pods_at(size), strict=True)):
        if size <= unit.floor:
            return 0
        size = unit.size_below(size)
    return size


def shrink(cluster: ClusterState, unit: Unit, size: int, prefer: int = NOWHERE) -> None:
    """Shrinks to a size. Of each role the pods that cost least go, those on the preferred node first."""
    cluster.resize(unit, size)
    remove_surplus(cluster, unit, prefer)


def remove_surplus(cluster: ClusterState, unit: Unit, prefer: int = NOWHERE) -> None:
    """Live pods beyond what the size wants count as leaving, whether or not they have been deleted yet."""
    for role, wanted in enumerate(unit.pods_at(unit.size)):
        have = sum(unit.placements[role].values()) + (unit.facts.done if role == unit.facts.lead else 0)
        if have > wanted:
            _remove(cluster, unit, role, have - wanted, prefer)


def _remove(cluster: ClusterState, unit: Unit, role: int, count: int, prefer: int) -> None:
    while count > 0:
        taken = [placement for placement, pods in unit.placements[role].items() if pods > 0]
        if not taken:
            return
        chosen = min(taken, key=lambda placement: _cost(cluster, unit, placement, prefer))
        for _ in range(min(count, unit.placements[role][chosen])):
            remove_pod(cluster, unit, role, *chosen)
            count -= 1


def _cost(
    cluster: ClusterState, unit: Unit, placement: tuple[int, PlacementState], prefer: int
) -> tuple[bool, int, bool, bool, int]:
    """Sort key: on the preferred node; not running; on nodes that take nothing new; without GPUs on nodes that have
    them.
    """
    node, state = placement
    known = node != NOWHERE
    in_the_way = known and not unit.gpu and cluster.snapshot.nodes[node].gpu
    return prefer != NOWHERE and node != prefer, state, known and cluster.usable[node], not in_the_way, -node
