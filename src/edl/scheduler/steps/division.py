"""Divides capacity by marginal gain: every unit has a wish, growth goes up to it, and those above give to those below.

The wishes are what all elastic units together make most of: what is free and what they hold, divided anew. A unit
that is frozen, pinned, promised capacity or was moved in this cycle wishes for what it has. Wishes count capacity, not
nodes, so a wish may not fit; then the unit gets the next smaller size that does.

A donor shrinks only if its receiver gets all that it is shrunk for, and only down to its wish. A wish of this cycle is
the wish of the next one too, since a size that was reached no longer bears the cost of a change; so the division comes
to rest.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from edl.scheduler.cycle import Cycle
from edl.scheduler.memory import Promise
from edl.scheduler.policies.goodput import choices, demand, gain_of_next, loss_of_last, speedup
from edl.scheduler.policies.marginal_gain import Bidder, divide
from edl.scheduler.policies.price import worths
from edl.scheduler.reasons.codes import Blocker, Code
from edl.scheduler.steps.reclaim import can_give, instances_by_node
from edl.scheduler.steps.relocation import place_compactly, relocate, shrink_compactly
from edl.scheduler.unit import Unit


def wish(cycle: Cycle, units: Sequence[Unit]) -> None:
    """Notes the size that every unit should have; units with GPUs and without divide different capacity."""
    for gpu in (True, False):
        some = [unit for unit in units if unit.gpu is gpu]
        if some:
            _wish(some, _free(cycle, gpu))


def _wish(units: Sequence[Unit], free: float) -> None:
    demands = [demand(unit) for unit in units]
    held = sum(unit.size * one.cost for unit, one in zip(units, demands, strict=True))
    for unit, worth in zip(units, worths(demands, free + held), strict=True):
        unit.worth = worth
    bidders = [Bidder(choices(unit), unit.worth, one.cost) for unit, one in zip(units, demands, strict=True)]
    least = sum(bidder.choices.hull[0].size * bidder.cost for bidder in bidders)
    for unit, size in zip(units, divide(bidders, free + held - least), strict=True):
        unit.wish = unit.size_within(size)


def _free(cycle: Cycle, gpu: bool) -> float:
    cluster = cycle.cluster
    free = cluster.total(cluster.free_later)
    if gpu:
        return float(sum(free[axis] for axis in cycle.snapshot.axes.gpus))
    return float(min(free[0], cluster.spare_later[0]) - cluster.idle_reserve)


def grow_to_wishes(cycle: Cycle, units: Sequence[Unit]) -> None:
    """On capacity that is free now, largest gain first, each in one piece."""
    wanting = [unit for unit in units if unit.wish > unit.size]
    wanting.sort(key=lambda unit: (-gain_of_next(unit), unit.tie))
    before = [(unit, unit.size) for unit in wanting]
    for unit in wanting:
        for size in _sizes_down(unit):
            _note_growth(unit, size, before)
            if relocate(cycle, unit, size):
                break
            if place_compactly(cycle, unit, size, now=True) is None:
                cycle.cluster.resize(unit, size)
                unit.grew = True
                break
            unit.because = ""


def _sizes_down(unit: Unit) -> list[int]:
    """Its wish, then the sizes below it that are worth a change."""
    worth = [choice.size for choice in choices(unit).every if unit.size < choice.size < unit.wish]
    return [unit.wish, *reversed([unit.size_within(size) for size in worth])]


def redistribute(cycle: Cycle, units: Sequence[Unit]) -> None:
    """Those above their wish give to those below it, who are promised the capacity."""
    for unit in units:
        if unit.wish < unit.size and can_give(unit) and speedup(unit, unit.wish) > speedup(unit, unit.size):
            shrink_compactly(cycle, unit, unit.wish)
            unit.note_shrink(Code.FASTER, str(unit.wish))
    receivers = [unit for unit in units if unit.wish > unit.size and not unit.grew]
    donors = _Donors([unit for unit in units if unit.wish < unit.size and can_give(unit)])
    if not donors.entries:
        return
    receivers.sort(key=lambda unit: (-gain_of_next(unit), unit.tie))
    for receiver in receivers:
        for size in _sizes_down(receiver):
            if _hand_over(cycle, donors, receiver, size):
                break


class _Donors:
    """Units above their wish by least loss, with their nodes: worked out once, and anew for those that gave."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self.hopeless: dict[tuple[int, bool], int] = {}
        """By shape: so many of it have no place on the nodes even if all donors give."""
        self.entries = sorted((self._entry(unit) for unit in units), key=lambda entry: entry[:2])

    def _entry(self, unit: Unit) -> tuple[float, Any, Unit, frozenset[int]]:
        return loss_of_last(unit), unit.tie, unit, frozenset(instances_by_node(unit))

    def in_order(self, receiver: Unit) -> Iterator[Unit]:
        """Those on nodes of the receiver first, so that it stays together; then by least loss."""
        near = instances_by_node(receiver).keys()
        able = [entry for entry in self.entries if entry[2].gpu is receiver.gpu]
        close = [not near.isdisjoint(entry[3]) for entry in able]
        yield from (entry[2] for entry, is_close in zip(able, close, strict=True) if is_close)
        yield from (entry[2] for entry, is_close in zip(able, close, strict=True) if not is_close)

    def gave(self, units: Sequence[Unit]) -> None:
        self.hopeless.clear()
        left = [entry[2] for entry in self.entries if entry[2].size > entry[2].wish]
        changed = {id(unit) for unit in units}
        kept = [entry for entry in self.entries if id(entry[2]) not in changed and entry[2].size > entry[2].wish]
        self.entries = sorted(
            [*kept, *(self._entry(unit) for unit in left if id(unit) in changed)], key=lambda entry: entry[:2]
        )


def _hand_over(cycle: Cycle, donors: _Donors, receiver: Unit, size: int) -> bool:
    """Shrinks donors until the receiver has its size; if all of them do not suffice, nobody shrinks."""
    cluster, need = cycle.cluster, size - receiver.size
    if receiver.role is None or need >= donors.hopeless.get((receiver.role.shape.index, receiver.gpu), need + 1):
        return False
    mark = cluster.mark()
    given: list[Unit] = []
    blocker: Blocker | None = None
    for donor in donors.in_order(receiver):
        if donor.size > donor.wish:
            shrink_compactly(cycle, donor, donor.wish)
            given.append(donor)
            blocker = place_compactly(cycle, receiver, size, now=False)
            if blocker is None:
                break
    else:
        cluster.rollback(mark)
        alone = sum(receiver.pods_at(size)) == size and not receiver.role.shape.rules
        if alone and blocker is not None and blocker.code is Code.NO_ROOM:
            donors.hopeless[receiver.role.shape.index, receiver.gpu] = need
        return False
    donors.gave(given)
    for donor in given:
        donor.note_shrink(Code.YIELDED, receiver.facts.path)
    receiver.promised = size
    receiver.blocker = Blocker(Code.ROOM_COMING, detail=f" for {size - receiver.size} more")
    cycle.promises[receiver.key] = Promise(size, cycle.now)
    return True


def _note_growth(unit: Unit, size: int, others: Sequence[tuple[Unit, int]]) -> None:
    """In words: what it gains, and who else would gain. `others`: those that want to grow, and from which size."""
    instances = size - unit.size
    gpus = unit.role.shape.gpus * instances if unit.role is not None else 0
    price = f"{gpus} GPU{'s' * (gpus != 1)}" if gpus else f"{instances} instance{'s' * (instances != 1)}"
    unit.because = f"{_factor(unit, unit.size, size)} of its throughput for {price}"
    rival = next(((other, had) for other, had in others if other is not unit), None)
    if rival is not None:
        other, had = rival
        unit.because += f"; next best {other.facts.path} {_factor(other, had, other.wish)}"


def _factor(unit: Unit, before: int, after: int) -> str:
    return f"{speedup(unit, after) / max(speedup(unit, before), 1e-9):.2g}x"
