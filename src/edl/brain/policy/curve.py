"""The throughput of a job as a function of its workers, fitted to what was measured.

Two shapes, each linear in its unknowns, and the one that explains what was measured with least:
- `smooth`: n / X(n) = a + b n + c n^2 with a, b, c >= 0. a is a worker's own time per sample, b what all of them queue
  for (a parameter server, a lock, a link: X tends to 1/b), c what grows with every pair (synchronisation: X falls).
- `knee`: X(n) = min(r n, top): each worker brings r until something else is full.
Errors are relative and count in units of what the noise of the samples allows. A further unknown must explain what
two such units do not: sizes on a line within the noise are a line, so growth ends only where the noise excludes it.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations

import msgspec
import numpy as np
from numpy.typing import NDArray

from .evidence import Point, doubt, noise

Array = NDArray[np.float64]
UNKNOWN = 4.0  # a further unknown must lower the squared error, in units of the noise, by this: two standard errors
MISFIT = 0.02  # no law is as simple as these: so far it may be off, however often a size was measured


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
        """What the last of so many workers brings, as a share of what the others bring each."""
        others = self.at(workers - 1)
        return (self.at(workers) - others) * (workers - 1) / others if others > 0 else 1.0

    @property
    def unknowns(self) -> int:
        return sum(1 for value in self.values if value and np.isfinite(value))

    @property
    def confidence(self) -> float:
        """Three sizes that fit exactly are as sure as it gets; one size says nothing about the next."""
        return round(max(0.0, 1 - 4 * self.error) * min(1.0, self.sizes / 3), 3)


def fit(measured: Sequence[Point]) -> Curve | None:
    """None without a measurement. With one size both shapes are a straight line through it."""
    return plausible(measured)[0] if measured else None


def plausible(measured: Sequence[Point]) -> tuple[Curve, ...]:
    """The best curve first, then those that the noise does not exclude beside it."""
    return _plausible(tuple(measured)) if measured else ()


@lru_cache(maxsize=64)  # one decision asks for the same curves several times
def _plausible(measured: tuple[Point, ...]) -> tuple[Curve, ...]:
    n = np.array([float(point.workers) for point in measured])
    x = np.array([point.throughput for point in measured])
    if len(measured) == 1:
        return (Curve("knee", (float(x[0] / n[0]), float("inf")), 0.0, 1, int(n[0])),)
    varies = noise(measured)
    weights = np.array([1 / (doubt(varies, point) ** 2 + MISFIT**2) for point in measured])
    shapes = (*_smooths(n, x, weights), *_knees(n, x, weights))
    found = sorted((_scored(*shape, n, x, weights) for shape in shapes), key=lambda pair: pair[0])
    return tuple(curve for score, curve in found if score <= found[0][0] + UNKNOWN)


def _smooths(n: Array, x: Array, weights: Array) -> Iterator[tuple[str, tuple[float, ...]]]:
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


def _knees(n: Array, x: Array, weights: Array) -> Iterator[tuple[str, tuple[float, ...]]]:
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
    return round(float(squares.sum()) + UNKNOWN * curve.unknowns, 6), curve
