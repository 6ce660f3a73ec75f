"""Step 7 of the CFS design: when nobody could grow, instances move from the right-most units to the left-most.

An instance moves only if that brings the weighted shares of the two closer and leaves the giver above what the
receiver had: the list of shares, sorted, then grows in lexicographic order with every completed move, as it does
with every growth. There are finitely many such lists, so moves come to an end, whatever the order of the scores
does in the meantime. The room is promised to the receiver; it gets it when the pods that leave have left. Never
from a GPU job to a CPU-only job; from a CPU-only job to a GPU job even against the shares, for a GPU must not idle
for want of the CPU beside it.

Units that were moved in this cycle, are frozen, paused or pinned take no part. Looking for partners is bounded: a
receiver looks at so many units, and one that found none speaks for all of its shape that have as much already.
"""

import itertools
import math

from edl.scheduler.cycle import Cycle
from edl.scheduler.facts import NOWHERE, Shape
from edl.scheduler.gang import place
from edl.scheduler.growth import next_size
from edl.scheduler.memory import Promise
from edl.scheduler.reasons import Code, Lack
from edl.scheduler.room import can_give, instances_by_node, leavers_needed
from edl.scheduler.seats import shrink
from edl.scheduler.tree import Tree
from edl.scheduler.unit import Unit

LOOKS = 512
_HELPED_BY_ROOM = (Code.NO_ROOM, Code.PROMISED, Code.LOAD, Code.QUOTA)


def even_out(cycle: Cycle) -> None:
    donors = [unit for unit in cycle.active if _may_donate(cycle, unit)]
    if not donors:
        return
    richest = max(unit.share for unit in donors)
    forced = not all(unit.gpu for unit in donors)
    receivers = [
        unit for unit in cycle.active if _may_receive(unit) and (unit.share < richest or (forced and unit.gpu))
    ]
    if receivers:
        Evening(cycle, donors).run(receivers)


def _may_donate(cycle: Cycle, unit: Unit) -> bool:
    return can_give(unit) and not (unit.promised or unit.facts.done) and unit.frozen_for(cycle.now) <= 0


def _may_receive(unit: Unit) -> bool:
    """It wanted to grow in this cycle and only room was missing."""
    busy = unit.short or unit.promised
    return not busy and unit.size > 0 and unit.lack is not None and unit.lack.code in _HELPED_BY_ROOM


class Evening:
    def __init__(self, cycle: Cycle, donors: list[Unit]) -> None:
        self.cycle = cycle
        self.board = cycle.board
        self.donors = Tree(cycle.policy.giving, donors)
        self.hopeless: dict[int, float] = {}

    def run(self, receivers: list[Unit]) -> None:
        """In the dry run a receiver has what it was promised, so that the next one is chosen rightly; then it has
        not.
        """
        tree = Tree(self.cycle.policy.serving, receivers)
        before = {id(unit): unit.size for unit in receivers}
        while len(tree):
            receiver = tree.pop_leftmost()
            if self._serve(receiver):
                tree.add(receiver)
            elif receiver.size > before[id(receiver)]:
                self._promise(receiver, before[id(receiver)])

    def _promise(self, receiver: Unit, size: int) -> None:
        receiver.promised, receiver.size = receiver.size, size
        receiver.lack = Lack(Code.ROOM_COMING, other=f" for {receiver.promised - size} more")
        self.cycle.promises[receiver.key] = Promise(receiver.promised, self.cycle.now)

    def _serve(self, receiver: Unit) -> bool:
        """Find one giver for one step."""
        shape, share = receiver.role.shape if receiver.role is not None else None, receiver.share
        if shape is None or share >= self.hopeless.get(shape.index, math.inf):
            return False
        size = next_size(receiver)
        for donor in itertools.islice(self.donors, LOOKS if size > receiver.size else 0):
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
        board = self.board
        found = [
            (count, -board.later[node][0], node)
            for node, seats in instances_by_node(donor).items()
            if board.allowed(node, shape) and 0 < (count := leavers_needed(board, node, shape, donor)) <= seats
        ]
        count, _, node = min(found, default=(1, 0, NOWHERE))
        return count, node

    def _carry_out(self, donor: Unit, count: int, node: int, receiver: Unit, size: int) -> bool:
        board = self.board
        smaller = donor.size_within(donor.size - count)
        if smaller > donor.size - count:
            return False
        donor.open_seats()
        receiver.open_seats()
        mark = board.mark()
        shrink(board, donor, smaller, prefer=node)
        pods = [have - had for have, had in zip(receiver.pods_at(size), receiver.pods_at(receiver.size), strict=True)]
        if place(board, receiver, pods, now=False, growth=True) is not None:
            board.rollback(mark)
            return False
        board.resize(receiver, size)
        donor.gives(Code.EVENED, receiver.facts.path)
        return True


def closer(donor: Unit, count: int, receiver: Unit, gain: int) -> bool:
    """Whether the shares come closer, and the giver keeps more than the receiver had. In integers: no float
    decides.
    """
    give, get = donor.resource_score * receiver.priority, receiver.resource_score * donor.priority
    rich, poor = donor.size * give, receiver.size * get
    less, more = rich - count * give, poor + gain * get
    return less > poor and abs(less - more) < rich - poor
