"""The price of capacity, and what progress of each job is worth at that price.

A job that will run on k instances finishes its next unit of work in 1 / s(k) seconds and holds capacity meanwhile. With
a price per instance and second, that unit costs (1 + price * k) / s(k); the cheapest k says what a unit of progress is
worth to get done now. A job takes the instances for which the worth of its speed exceeds their price by most, and the
right price is the one at which all jobs together take what there is. So a job that scales well gets much, one that
does not gets little, and where the cluster is empty everybody gets what makes it fastest.

A job that will be there for long can wait for cheaper times: it expects a lower price than today's.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
ROUNDS = 12  # of the search for the price, which halves its logarithm's range each time
LOWEST, HIGHEST = 1e-5, 1e3


class Demand(msgspec.Struct, frozen=True, gc=False):
    """What one job would make of capacity."""

    sizes: tuple[int, ...]
    speeds: tuple[float, ...]
    """Speed-up at each size, positive."""
    most: int
    """The largest size that it may be given."""
    weight: float
    """Of a second of its time."""
    cost: float
    """Of an instance."""
    patience: float = 1.0
    """The price that it expects over its life, as a share of today's."""


def worths(demands: Sequence[Demand], capacity: float) -> list[float]:
    """What a unit of progress is worth to each job, at the price at which they take so much capacity together."""
    table = _Table(demands)
    low, high = LOWEST, HIGHEST
    for _ in range(ROUNDS):
        price = float(np.sqrt(low * high))
        if table.taken(price) > capacity:
            low = price
        else:
            high = price
    found: list[float] = table.worth(high).tolist()
    return found


class _Table:
    """All demands in arrays: rows are jobs, columns sizes; the last size is repeated where a job has fewer."""

    def __init__(self, demands: Sequence[Demand]) -> None:
        curves, numbers = _distinct(demands)
        width = max(len(demand.sizes) for demand in curves)
        self.sizes = np.array([_padded(demand.sizes, width) for demand in curves], dtype=np.float64)[numbers]
        self.speeds = np.array([_padded(demand.speeds, width) for demand in curves], dtype=np.float64)[numbers]
        self.weights = _column([demand.weight for demand in demands])
        self.costs = _column([demand.cost for demand in demands]) * self.sizes
        self.expected = _column([demand.patience for demand in demands]) * self.costs
        self.barred = self.sizes > _column([demand.most for demand in demands])
        self.barred[:, 0] = False
        self.rows = np.arange(len(demands))

    def worth(self, price: float) -> Array:
        found: Array = ((self.weights + price * self.expected) / self.speeds).min(axis=1)
        return found

    def taken(self, price: float) -> float:
        profit = self.worth(price)[:, None] * self.speeds - price * self.costs
        profit[self.barred] = -np.inf
        return float(self.costs[self.rows, profit.argmax(axis=1)].sum())


def _distinct(demands: Sequence[Demand]) -> tuple[list[Demand], list[int]]:
    """One demand of each curve, and the number of its curve for each: there are few curves, and many jobs."""
    known: dict[tuple[int, int], int] = {}
    numbers = [known.setdefault((id(demand.sizes), id(demand.speeds)), len(known)) for demand in demands]
    first = dict(zip(reversed(numbers), reversed(demands), strict=True))
    return [first[number] for number in range(len(known))], numbers


def _column(values: Sequence[float]) -> Array:
    return np.array(values, dtype=np.float64)[:, None]


def _padded(values: Sequence[float], width: int) -> list[float]:
    return [*values, *[values[-1]] * (width - len(values))]
