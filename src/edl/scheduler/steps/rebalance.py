"""Step 7 of the CFS design: when nobody could grow, instances move from the right-most units to the left-most.

An instance moves only if that brings the weighted shares of the two closer and leaves the donor above what the
receiver had: the list of shares, sorted, then grows in lexicographic order with every completed move, as it does
with every growth. There are finitely many such lists, so moves come to an end, whatever the order of the scores
does in the meantime. The capacity is promised to the receiver; it gets it when the leaving pods are gone. Never
from a GPU job to a CPU-only job; from a CPU-only job to a GPU job even against the shares, for a GPU must not idle
for want of the CPU beside it.

Units that were moved in this cycle, are frozen, paused or pinned take no part. The search for donors is bounded: a
receiver tries so many units, and one that found none speaks for all of its shape that have as much already.
"""

import itertools
import math

from edl.scheduler.cycle import Cycle
from edl.scheduler.memory import Promise
from edl.scheduler.placement.gang import place_gang
from edl.scheduler.placement.placements import shrink
from edl.scheduler.policies.score_tree import ScoreTree
from edl.scheduler.reasons.codes import Blocker, Code
from edl.scheduler.snapshot.types import NOWHERE, Shape
from edl.scheduler.steps.growth import next_size
from edl.scheduler.steps.reclaim import can_give, instances_by_node, leavers_needed
from edl.scheduler.unit import Unit

MAX_TRIES = 512
_ABOUT = 1.0 + 1e-9
_HELPED_BY_CAPACITY = (Code.NO_ROOM, Code.PROMISED, Code.LOAD, Code.QUOTA)


def rebalance(cycle: Cycle) -> None:
    donors = [unit for unit in cycle.active if _may_donate(cycle, unit)]
    if not donors:
        return
    reach = _Reach(donors)
    forced = not all(unit.gpu for unit in donors)
    receivers = [
        unit for unit in cycle.active if _may_receive(unit) and ((forced and unit.gpu) or reach.includes(unit))
    ]
    if receivers:
        Rebalancer(cycle, donors).run(receivers)


class _Reach:
    """The shares that some donor could add to, by what `closer` asks of the two: others need not be tried.

    In floats, so a little more than that."""

    def __init__(self, donors: list[Unit]) -> None:
        shares = [(unit.size * unit.resource_score / unit.priority, unit.weight) for unit in donors]
        self._above = max([share - weight for share, weight in shares]) * _ABOUT
        self._twice = max([2 * share - weight for share, weight in shares]) * _ABOUT

    def includes(self, receiver: Unit) -> bool:
        weight = receiver.resource_score / receiver.priority
        share = receiver.size * weight
        return share < self._above and 2 * share + weight < self._twice


def _may_donate(cycle: Cycle, unit: Unit) -> bool:
    if not can_give(unit):
        return False
    busy = unit.promised or unit.facts.done or unit.key in cycle.user_sizes
    return not busy and unit.frozen_for(cycle.now) <= 0


def _may_receive(unit: Unit) -> bool:
    """It wanted to grow in this cycle and only capacity was missing."""
    if unit.blocker is None or unit.blocker.code not in _HELPED_BY_CAPACITY or unit.size <= 0:
        return False
    return not (unit.incomplete or unit.promised or (unit.size < unit.minimum and unit.raising))


class Rebalancer:
    def __init__(self, cycle: Cycle, donors: list[Unit]) -> None:
        self.cycle = cycle
        self.cluster = cycle.cluster
        self.donors = ScoreTree(cycle.policy.giving_order, donors)
        self.hopeless: dict[int, float] = {}

    def run(self, receivers: list[Unit]) -> None:
        """In the dry run a receiver has what it was promised, so that the next one is chosen rightly; then it has
        not.
        """
        tree = ScoreTree(self.cycle.policy.serving_order, receivers)
        before = {id(unit): unit.size for unit in receivers}
        while len(tree):
            receiver = tree.pop_leftmost()
            if self._serve(receiver):
                tree.add(receiver)
            elif receiver.size > before[id(receiver)]:
                self._promise(receiver, before[id(receiver)])

    def _promise(self, receiver: Unit, size: int) -> None:
        receiver.promised, receiver.size = receiver.size, size
        receiver.blocker = Blocker(Code.ROOM_COMING, detail=f" for {receiver.promised - size} more")
        self.cycle.promises[receiver.key] = Promise(receiver.promised, self.cycle.now)

    def _serve(self, receiver: Unit) -> bool:
        """Finds one donor for one step."""
        shape, share = receiver.role.shape if receiver.role is not None else None, receiver.share
        if shape is None or share >= self.hopeless.get(shape.index, math.inf):
            return False
        size = next_size(receiver)
        for donor in itertools.islice(self.donors, MAX_TRIES if size > receiver.size else 0):
            if not receiver.gpu and donor.share <= share:
                break
            if self._move(donor, receiver, shape, size):
                self.donors.remove(donor)
                if can_give(donor):
                    self.donors.add(donor)
                return True
        self.hopeless[shape.index] = share
        return False

    def _move(self, donor: Unit, receiver: Unit, shape: Shape, size: int) -> bool:
        if donor is receiver or (donor.gpu and not receiver.gpu):
            return False
        forced = receiver.gpu and not donor.gpu
        least = donor.worthwhile()
        if not forced and not closer(donor, least, receiver, size - receiver.size):
            return False
        count, node = self._cheapest(donor, shape)
        count = max(count, least)
        if donor.size - count < donor.floor or not (forced or closer(donor, count, receiver, size - receiver.size)):
            return False
        return self._carry_out(donor, count, node, receiver, size)

    def _cheapest(self, donor: Unit, shape: Shape) -> tuple[int, int]:
        """How many must leave, and from where: the larger the hole, the more can be made of it.

        Anywhere, if nodes are not what is missing.
        """
        cluster = self.cluster
        found = [
            (count, -cluster.free_later[node][0], node)
            for node, pods in instances_by_node(donor).items()
            if cluster.allowed(node, shape) and 0 < (count := leavers_needed(cluster, node, shape, donor)) <= pods
        ]
        count, _, node = min(found, default=(1, 0, NOWHERE))
        return count, node

    def _carry_out(self, donor: Unit, count: int, node: int, receiver: Unit, size: int) -> bool:
        cluster = self.cluster
        smaller = donor.size_within(donor.size - count)
        if smaller > donor.size - count:
            return False
        donor.open_placements()
        receiver.open_placements()
        mark = cluster.mark()
        shrink(cluster, donor, smaller, prefer=node)
        pods = [have - had for have, had in zip(receiver.pods_at(size), receiver.pods_at(receiver.size), strict=True)]
        if place_gang(cluster, receiver, pods, now=False, growth=True) is not None:
            cluster.rollback(mark)
            return False
        cluster.resize(receiver, size)
        donor.note_shrink(Code.EVENED, receiver.facts.path)
        return True


def closer(donor: Unit, count: int, receiver: Unit, gain: int) -> bool:
    """Whether the shares come closer, and the donor keeps more than the receiver had. In integers: no float
    decides.
    """
    give, get = donor.resource_score * receiver.priority, receiver.resource_score * donor.priority
    rich, poor = donor.size * give, receiver.size * get
    less, more = rich - count * give, poor + gain * get
    return less > poor and abs(less - more) < rich - poor
