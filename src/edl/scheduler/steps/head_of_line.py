"""The head of the line: a gang that has waited long keeps what it needs, so that newcomers do not overtake it for ever.

It keeps only the resources that it lacks, and only as much as its own pods need, on nodes chosen for them: where they
fit now, else where they would if the jobs there left. What is kept counts as taken, so whoever fits beside it goes
ahead (backfill), and nobody can reclaim it. Growth may use it: the gang reclaims from those above their minimum.
"""

from collections.abc import Sequence

from msgspec import structs

from edl.scheduler.cycle import Cycle
from edl.scheduler.placement.cluster_state import ClusterState
from edl.scheduler.placement.gang import demand, hardest_first, place_gang, place_or_reserve
from edl.scheduler.reasons.codes import Blocker, Code
from edl.scheduler.snapshot.types import NOWHERE, Charges, Shape
from edl.scheduler.unit import Unit

_Nodes = list[tuple[int, int]]
"""Role and node of every pod."""


class HeadOfLine:
    """What one gang keeps of the cluster. `keep` and `release` undo each other."""

    def __init__(
        self, cluster: ClusterState, unit: Unit, nodes: _Nodes, lacking: set[int], limits: tuple[int, int]
    ) -> None:
        self.cluster = cluster
        self.limits = limits
        self.unit = unit
        roles = unit.facts.roles
        part = {role: lacking_part(facts.shape, lacking) for role, facts in enumerate(roles)}
        self.lacking = lacking
        self.kept: list[tuple[int, Shape, Charges]] = [(node, part[role], roles[role].charges) for role, node in nodes]

    def keep(self) -> None:
        self._adjust(-1)

    def release(self) -> None:
        self._adjust(1)

    def _adjust(self, sign: int) -> None:
        for node, shape, charges in self.kept:
            self.cluster.adjust(node, shape, charges, 0, sign)
        self.cluster.spare_later = [
            have + sign * kept for have, kept in zip(self.cluster.spare_later, self.limits, strict=True)
        ]


class Line:
    """The gangs that keep something in this cycle: the oldest of each priority."""

    def __init__(self, cycle: Cycle) -> None:
        self.cycle = cycle
        self.cluster = cycle.cluster
        self.heads: list[HeadOfLine] = []
        self._without_jobs: ClusterState | None = None

    def join(self, unit: Unit, blocker: Blocker) -> None:
        """Keeps what the unit needs, unless an older one of its priority does so already or it could never run:
        waiting for that would help nobody."""
        if any(head.unit.priority == unit.priority for head in self.heads):
            return
        if self._without_jobs is None:
            self._without_jobs = cluster_without_jobs(self.cycle)
        pods = unit.pods_at(unit.floor)
        nodes = self._nodes(unit, pods, self._without_jobs)
        if nodes:
            lacking = lacking_axes(self.cluster, unit, pods, blocker)
            limits = limits_to_keep(self.cluster, self._without_jobs, unit, pods, lacking)
            head = HeadOfLine(self.cluster, unit, nodes, lacking, limits)
            head.keep()
            self.heads.append(head)

    def _nodes(self, unit: Unit, pods: Sequence[int], without_jobs: ClusterState) -> _Nodes:
        """Beside what was reserved for others before: what they were told is coming is not taken back."""
        marks = self.cluster.mark(), without_jobs.mark()
        for other in self.cycle.active:
            if other is not unit and other.size == 0:
                for role, reserved in other.reserved_nodes.items():
                    facts = other.facts.roles[role]
                    for node in reserved:
                        self.cluster.adjust(node, facts.shape, facts.charges, 0, -1)
                        without_jobs.adjust(node, facts.shape, facts.charges, 0, -1)
        nodes = nearest_nodes(self.cluster, without_jobs, unit, pods)
        self.cluster.rollback(marks[0])
        without_jobs.rollback(marks[1])
        return nodes or any_nodes(without_jobs, unit, pods)

    def rival_of(self, unit: Unit, pods: Sequence[int]) -> str:
        """The first of them that keeps something that the unit needs."""
        roles = [facts for facts, count in zip(unit.facts.roles, pods, strict=True) if count > 0]
        axes = {axis for facts in roles for axis, _ in facts.shape.needs}
        quotas = {line for facts in roles for line, _ in facts.charges}
        for head in self.heads:
            if axes & head.lacking or any(line in quotas for _, _, charges in head.kept for line, _ in charges):
                return head.unit.facts.path
        return ""

    def release(self) -> None:
        for head in self.heads:
            head.release()

    def keep(self) -> None:
        for head in self.heads:
            head.keep()


def nearest_nodes(cluster: ClusterState, without_jobs: ClusterState, unit: Unit, pods: Sequence[int]) -> _Nodes:
    """A node for every pod: where it fits now, else where most is free already of those that it could use. Changes
    both states; empty if it does not find one for each."""
    nodes: _Nodes = []
    for role in hardest_first(unit, pods):
        facts = unit.facts.roles[role]
        for _ in range(pods[role]):
            node = cluster.find(facts.shape, now=False)
            if node != NOWHERE:
                place_or_reserve(cluster, unit, role, node, now=False)
            else:
                node = _most_free(cluster, without_jobs, facts.shape)
            if node == NOWHERE:
                return []
            without_jobs.adjust(node, facts.shape, facts.charges, 0, -1)
            nodes.append((role, node))
    return nodes


def any_nodes(without_jobs: ClusterState, unit: Unit, pods: Sequence[int]) -> _Nodes:
    """Where it would be if no other job were there; empty if it would not fit even so."""
    mark = without_jobs.mark()
    if place_gang(without_jobs, unit, pods, now=False, growth=False) is not None:
        return []
    nodes = [place for place, count in sorted(unit.reservations.items()) for _ in range(count)]
    without_jobs.rollback(mark)
    return nodes


def limits_to_keep(
    cluster: ClusterState, without_jobs: ClusterState, unit: Unit, pods: Sequence[int], lacking: set[int]
) -> tuple[int, int]:
    """Of the limits that are not promised yet, all but what it would leave if no other job were there."""
    cpu, memory, _ = demand(cluster, unit, pods)
    spare, whole = cluster.spare_later, without_jobs.spare_later
    return (
        max(0, spare[0] - max(0, whole[0] - cpu)) if 0 in lacking else 0,
        max(0, spare[1] - max(0, whole[1] - memory)) if 1 in lacking else 0,
    )


def _most_free(cluster: ClusterState, without_jobs: ClusterState, shape: Shape) -> int:
    able = [node for node in cluster.allowed_nodes(shape.node_match) if without_jobs.fits(node, shape, False)]
    return max(able, key=lambda node: (_free_share(cluster.free_later[node], shape), -node), default=NOWHERE)


def _free_share(row: Sequence[int], shape: Shape) -> float:
    """How much of a pod of the shape there is already."""
    return min((row[axis] / amount for axis, amount in shape.needs), default=1.0)


def lacking_axes(cluster: ClusterState, unit: Unit, pods: Sequence[int], blocker: Blocker) -> set[int]:
    """The resources of which its nodes have too little; all that it needs if no single one is to blame."""
    lacking = {blocker.axis} if blocker.code is Code.PROMISED else set[int]()
    needed: set[int] = set()
    for facts, count in zip(unit.facts.roles, pods, strict=True):
        rows = [cluster.free_later[node] for node in cluster.allowed_nodes(facts.shape.node_match)] if count else []
        for axis, amount in facts.shape.needs if count else ():
            needed.add(axis)
            if sum(max(0, row[axis]) // amount for row in rows) < count:
                lacking.add(axis)
    return lacking or needed


def lacking_part(shape: Shape, lacking: set[int]) -> Shape:
    """A shape that asks for these resources only."""
    return structs.replace(
        shape,
        requests=tuple(amount if axis in lacking else 0 for axis, amount in enumerate(shape.requests)),
        needs=tuple((axis, amount) for axis, amount in shape.needs if axis in lacking),
        limits=(0, 0),
        rules=(),
        counted=(),
    )


def cluster_without_jobs(cycle: Cycle) -> ClusterState:
    """The cluster as it would be without any pod of a job."""
    cluster = ClusterState(cycle.snapshot, cycle.settings, cycle.now)
    for facts in cycle.snapshot.jobs:
        for role, bound in zip(facts.roles, facts.bound, strict=False):
            for node, pods in bound.items():
                cluster.adjust(node, role.returned, role.charges, pods, pods)
    return cluster
