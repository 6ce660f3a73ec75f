"""Fits the throughput of a job as a function of its workers.

Two shapes, each linear in its unknowns; the one that explains the measurements with the fewest unknowns wins:
- `smooth`: n / X(n) = a + b n + c n^2 with a, b, c >= 0. a is a worker's own time per sample, b what all of them queue
  for (a parameter server, a lock, a link: X tends to 1/b), c what grows with every pair (synchronisation: X falls).
- `knee`: X(n) = min(r n, top): each worker adds r until something else is saturated.
Errors are relative, in units of the noise. A further unknown must lower the squared error by two standard errors: sizes
on a line within the noise are a line, so growth ends only where the noise excludes it.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations

import msgspec
import numpy as np
from numpy.typing import NDArray

from edl.throughput.points import ThroughputPoint, noise, standard_error

Array = NDArray[np.float64]
PARAMETER_COST = 4.0  # by which a further unknown must lower the squared error, in units of the noise
MISFIT = 0.02  # relative error allowed to any shape, however often a size was measured


class Curve(msgspec.Struct, frozen=True):
    """`error` is the relative misfit (root of the weighted mean square); `largest` the largest size measured."""

    shape: str
    values: tuple[float, ...]
    error: float
    sizes: int
    largest: int

    def at(self, workers: float) -> float:
        if workers <= 0:
            return 0.0
        if self.shape == "knee":
            rate, top = self.values
            return min(rate * workers, top)
        a, b, c = self.values
        return workers / (a + b * workers + c * workers * workers)

    def marginal(self, workers: int) -> float:
        """What the last of so many workers adds, as a share of the others' mean."""
        others = self.at(workers - 1)
        return (self.at(workers) - others) * (workers - 1) / others if others > 0 else 1.0

    @property
    def unknowns(self) -> int:
        return sum(1 for value in self.values if value and np.isfinite(value))

    @property
    def confidence(self) -> float:
        """From 0 to 1: full with three sizes that fit exactly."""
        return round(max(0.0, 1 - 4 * self.error) * min(1.0, self.sizes / 3), 3)


def fit(measured: Sequence[ThroughputPoint]) -> Curve | None:
    """The best curve; None without a measurement. With one size it is a straight line through it."""
    return plausible(measured)[0] if measured else None


def plausible(measured: Sequence[ThroughputPoint]) -> tuple[Curve, ...]:
    """The best curve first, then the others that the noise does not exclude."""
    return _plausible(tuple(measured)) if measured else ()


@lru_cache(maxsize=64)  # one decision asks for the same curves several times
def _plausible(measured: tuple[ThroughputPoint, ...]) -> tuple[Curve, ...]:
    n = np.array([float(point.workers) for point in measured])
    x = np.array([point.throughput for point in measured])
    if len(measured) == 1:
        return (Curve("knee", (float(x[0] / n[0]), float("inf")), 0.0, 1, int(n[0])),)
    varies = noise(measured)
    weights = np.array([1 / (standard_error(varies, point) ** 2 + MISFIT**2) for point in measured])
    shapes = (*_smooth_fits(n, x, weights), *_knee_fits(n, x, weights))
    found = sorted((_scored(*shape, n, x, weights) for shape in shapes), key=lambda pair: pair[0])
    return tuple(curve for score, curve in found if score <= found[0][0] + PARAMETER_COST)


def _smooth_fits(n: Array, x: Array, weights: Array) -> Iterator[tuple[str, tuple[float, ...]]]:
    """With non-negative unknowns the least squares are those of some subset of them: three have seven."""
    columns = np.stack([np.ones_like(n), n, n * n], axis=1) * (x / n)[:, None]  # so that errors are relative
    gram, target = columns.T @ (columns * weights[:, None]), columns.T @ weights
    for some in (list(some) for size in range(1, min(3, len(n)) + 1) for some in combinations(range(3), size)):
        try:
            found = np.linalg.solve(gram[np.ix_(some, some)], target[some])
        except np.linalg.LinAlgError:
            continue  # throughputs so far apart that these unknowns cannot be told from each other
        if (found > 0).all():
            values = np.zeros(3)
            values[some] = found
            yield "smooth", tuple(float(value) for value in values)


def _knee_fits(n: Array, x: Array, weights: Array) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Sizes are in order: so many of the smallest are on the slope, the others are full."""
    for slope in range(1, len(n) + 1):
        rate = float(np.average(x[:slope] / n[:slope], weights=weights[:slope]))
        top = float(np.average(x[slope:], weights=weights[slope:])) if slope < len(n) else float("inf")
        yield "knee", (rate, top)


def _scored(shape: str, values: tuple[float, ...], n: Array, x: Array, weights: Array) -> tuple[float, Curve]:
    """How badly it explains what was measured, in units of what the noise allows, and by how many unknowns."""
    curve = Curve(shape, values, 0.0, len(n), int(n.max()))
    squares = weights * (np.array([curve.at(size) for size in n]) / x - 1) ** 2
    curve = msgspec.structs.replace(curve, error=float(np.sqrt(squares.sum() / weights.sum())))
    return round(float(squares.sum()) + PARAMETER_COST * curve.unknowns, 6), curve
