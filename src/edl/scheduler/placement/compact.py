"""Chooses nodes for several instances of a unit so that they share as few nodes as may be.

Instances that train together talk to each other, and over nodes that is slower. First the nodes where the unit is
already; then nodes that are filled whole; the rest where it fits most tightly.
"""

from edl.scheduler.placement.cluster_state import ClusterState, Room
from edl.scheduler.placement.resources import CEILING
from edl.scheduler.snapshot.types import Shape


def compact_nodes(cluster: ClusterState, shape: Shape, count: int, own: dict[int, int], *, now: bool) -> list[int]:
    """A node for each of so many pods, as far as there are any. `own`: nodes where the unit has pods already."""
    room = _room(cluster, shape, now)
    chosen: list[int] = []
    for node in sorted(own, key=lambda node: (-own[node], node)):
        _take(chosen, room, node, count)
    while len(chosen) < count and room:
        missing = count - len(chosen)
        enough = [(slots, node) for node, slots in room.items() if slots >= missing]
        node = min(enough)[1] if enough else max(room, key=lambda node: (room[node], -node))
        _take(chosen, room, node, count)
    return chosen


def roomy_nodes(cluster: ClusterState, shape: Shape, count: int, *, now: bool) -> list[int]:
    """The same for a unit that is going to grow: on the node where most of it could be together."""
    room = _room(cluster, shape, now)
    chosen: list[int] = []
    while len(chosen) < count and room:
        _take(chosen, room, max(room, key=lambda node: (room[node], -node)), count)
    return chosen


def most_together(cluster: ClusterState, shape: Shape) -> int:
    """How many pods of the shape the largest node holds when nothing else is there."""
    found = cluster.most_together.get(shape.index)
    if found is None:
        capacities = {cluster.snapshot.nodes[node].capacity for node in cluster.allowed_nodes(shape.node_match)}
        counts = [min(row[axis] // amount for axis, amount in shape.needs) for row in capacities] if shape.needs else []
        found = cluster.most_together[shape.index] = max(counts, default=0)
    return found


def _room(cluster: ClusterState, shape: Shape, now: bool) -> dict[int, int]:
    """Node: how many pods of the shape have capacity there; nodes without any are left out. For the caller to change.

    Only nodes that were altered since the last time are looked at: it is asked for every size of every unit.
    """
    known = cluster.rooms.get((shape.index, now))
    if known is None:
        nodes = cluster.allowed_nodes(shape.node_match)
        slots = {node: count for node in nodes if (count := _slots(cluster, node, shape, now)) > 0}
        known = cluster.rooms[shape.index, now] = Room(slots, len(cluster.altered))
    elif known.as_of < len(cluster.altered):
        _renew(known, cluster, shape, now)
    return known.slots.copy()


def _renew(known: Room, cluster: ClusterState, shape: Shape, now: bool) -> None:
    for node in set(cluster.altered[known.as_of :]):
        count = _slots(cluster, node, shape, now) if cluster.allowed(node, shape) else 0
        if count > 0:
            known.slots[node] = count
        else:
            known.slots.pop(node, None)
    known.as_of = len(cluster.altered)


def _take(chosen: list[int], room: dict[int, int], node: int, count: int) -> None:
    chosen += [node] * min(room.pop(node, 0), count - len(chosen))


def _slots(cluster: ClusterState, node: int, shape: Shape, now: bool) -> int:
    if not shape.needs:
        return 0
    row, least = cluster.free_later[node], CEILING
    for axis, amount in shape.needs:
        slots = row[axis] // amount
        if slots < least:
            least = slots
    if now and least > 0:
        row = cluster.free_now[node]
        for axis, amount in shape.needs:
            slots = row[axis] // amount
            if slots < least:
                least = slots
    return max(0, least)
