"""`goodput`: instances go where they speed up the cluster most, by the throughput models of the jobs.

The capacity that jobs share has a price, and a job takes what its speed-up is worth at that price (`price`). Without a
model a job speeds up as the prior has it. Two modes: a job that declares the work it has left never pays for a change
that it is too short to win back, and if it is long it waits for cheaper times; of any other job the policy assumes that
it has as much before it as behind it.

A change of size pauses a job. Sizes other than its own lose as much of their speed-up as the pause is of the time in
which the change has to pay.
"""

import functools
from typing import TYPE_CHECKING, Any

from edl.scheduler.policies.marginal_gain import Choice, Choices, choices_of
from edl.scheduler.policies.price import Demand
from edl.throughput.model import JobModel, prior_rate

if TYPE_CHECKING:
    from edl.scheduler.unit import Unit

PAYS_WITHIN = 300.0  # seconds in which a change has to win back its pause
PAUSE = 5.0  # seconds that a change is taken to cost where none was measured
EXPLORES = 10.0  # pauses that a job must have left to be shown a second size
LONG = 10_000.0  # seconds of one instance after which a job begins to wait for cheaper times,
PATIENCE = 0.2  # by this power of the work that it has left
TRUSTED = 4  # times the largest size that was measured: what a model says beyond is a guess
MOST_CHOICES = 24  # sizes of a job without a model that are looked at
NORMAL = 1000  # priority whose second counts as one


class Goodput:
    name = "goodput"
    rebalances = False
    divides = True

    def serving_order(self, unit: "Unit") -> tuple[Any, ...]:
        """The largest gain by the next step; then `unit.tie`."""
        return -gain_of_next(unit), *unit.tie

    def giving_order(self, unit: "Unit") -> tuple[Any, ...]:
        """The least loss by an instance less."""
        priority, created, namespace, name, kind = unit.tie
        return loss_of_last(unit), -priority, -created, namespace, name, kind

    def giving_class(self, unit: "Unit") -> float:
        return loss_of_last(unit)

    def starts_without_capacity(self, unit: "Unit") -> bool:
        return False


def speedup(unit: "Unit", size: int) -> float:
    """Against one instance."""
    model = unit.facts.model
    return prior_rate(size) if model is None else model.rate(size) / model.rate(1)


def cost(unit: "Unit") -> float:
    """Of one instance: GPUs, or millicores where it needs none."""
    shape = unit.role.shape if unit.role is not None else None
    return float((shape.gpus or shape.requests[0] or 1) if shape is not None else 1)


def gain_of_next(unit: "Unit") -> float:
    """What the next size adds to its speed, per cost and by its worth. Of one that has none yet, of its minimum."""
    above = unit.size_above(unit.size) if unit.size else unit.floor
    if above <= unit.size:
        return 0.0
    return unit.worth * (speedup(unit, above) - speedup(unit, unit.size)) / ((above - unit.size) * cost(unit))


def loss_of_last(unit: "Unit") -> float:
    below = unit.size_below(unit.size)
    if below >= unit.size:
        return float("inf")
    return unit.worth * (speedup(unit, unit.size) - speedup(unit, below)) / ((unit.size - below) * cost(unit))


def demand(unit: "Unit") -> Demand:
    """What it would make of capacity, up to its maximum; given only up to what its model is trusted for."""
    sizes, speeds = _curve(unit.facts.model, max(unit.floor, 1), max(unit.ceiling, unit.floor, 1))
    return Demand(
        sizes,
        speeds,
        most=trusted(unit),
        weight=max(unit.priority, 1) / NORMAL,
        cost=cost(unit),
        patience=(1.0 + work_left(unit) / LONG) ** -PATIENCE,
    )


def work_left(unit: "Unit") -> float:
    """In seconds of one instance: declared, or as much as it has been served."""
    model = unit.facts.model
    left = model.seconds_left(1) if model is not None else None
    return max(0.0, unit.served) if left is None else left


@functools.lru_cache(maxsize=1 << 14)
def _curve(model: JobModel | None, floor: int, ceiling: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
    sizes = sizes_between(model, floor, floor, ceiling)
    return sizes, tuple(_speed(model, size) for size in sizes)


def _speed(model: JobModel | None, size: int) -> float:
    return prior_rate(size) if model is None else max(model.rate(size) / model.rate(1), 1e-9)


def gathering_pays(unit: "Unit") -> bool:
    """Whether its size on as few nodes as may be is worth the pause of a move."""
    model = unit.facts.model
    if model is None:
        return False
    return model.scattered_rate(unit.size) < model.rate(unit.size) * (1.0 - price_of_change(unit))


def price_of_change(unit: "Unit") -> float:
    """The share of its throughput that a change costs, over the time that the change has to pay in.

    Nothing, if only one size was ever measured: another one says what the job makes of capacity, which pays for itself
    later, as long as there is a later.
    """
    pause, model = unit.facts.rescale_seconds, unit.facts.model
    if pause is None:
        pause = model.pause if model is not None and model.pause is not None else PAUSE
    left = model.seconds_left(max(unit.size, 1)) if model is not None else None
    if model is not None and model.measured == 1 and (left is None or left >= EXPLORES * pause):
        return 0.0
    return _share_of_time(pause, PAYS_WITHIN if left is None else min(PAYS_WITHIN, left))


@functools.lru_cache(maxsize=1 << 12)
def _share_of_time(pause: float, time: float) -> float:
    return min(1.0, round(pause / max(time, 1.0), 2))


def trusted(unit: "Unit") -> int:
    """Its maximum, or as far beyond what it has measured as a model is believed. Each step on the way costs a pause."""
    model = unit.facts.model
    if model is None:
        return unit.ceiling
    return max(unit.floor, min(unit.ceiling, max(unit.size, 1, TRUSTED * model.explored)))


def choices(unit: "Unit") -> Choices:
    """Its sizes. Those other than the one it has now bear the cost of the change."""
    price = price_of_change(unit)
    floor, size, ceiling = unit.floor, unit.size, max(trusted(unit), unit.floor)
    if unit.sizes:
        sizes = tuple(one for one in unit.sizes if floor <= one <= ceiling) or (floor,)
        return _choices(unit.facts.model, sizes, size, price)
    return _choices_of_range(unit.facts.model, floor, size, ceiling, price)


@functools.lru_cache(maxsize=1 << 14)
def _choices_of_range(model: JobModel | None, floor: int, size: int, ceiling: int, price: float) -> Choices:
    return _choices(model, sizes_between(model, floor, size, ceiling), size, price)


def sizes_between(model: JobModel | None, floor: int, size: int, ceiling: int) -> tuple[int, ...]:
    """Those of its model, and the ends; without one, evenly spread."""
    if model is not None:
        inner = [one for one in model.sizes if floor < one < ceiling]
    else:
        inner = list(range(floor + 1, ceiling, 1 + (ceiling - floor) // MOST_CHOICES))
    return tuple(sorted({floor, ceiling, *inner, *([size] if floor <= size <= ceiling else [])}))


def _choices(model: JobModel | None, sizes: tuple[int, ...], size: int, price: float) -> Choices:
    found = [Choice(one, _speed(model, one) * (1.0 if one == size else 1.0 - price)) for one in sizes]
    return choices_of(found)
