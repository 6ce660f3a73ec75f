"""The throughput of a job as a function of its workers, fitted to what was measured.

Two shapes, each linear in its unknowns, and the one that errs less:
- `smooth`: n / X(n) = a + b n + c n^2 with a, b, c >= 0. a is a worker's own time per sample, b what all of them queue
  for (a parameter server, a lock, a link: X tends to 1/b), c what grows with every pair (synchronisation: X falls).
- `knee`: X(n) = min(r n, top): each worker brings r until something else is full.
Errors are relative to the measured throughput and weighted by the seconds that were measured. A further unknown must
lower the error by two points to be believed: two sizes on a line within the noise are a line.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from statistics import median

import msgspec
import numpy as np
from numpy.typing import NDArray

from .facts import Sample

Array = NDArray[np.float64]
UNKNOWN = 0.02  # error that a further unknown must save


class Point(msgspec.Struct, frozen=True):
    """What was measured at one size: the median throughput, over how long, and how much it varied."""

    workers: int
    throughput: float
    seconds: float
    spread: float = 0.0
    samples: int = 1


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
        """What the last of so many workers brings, as a share of what the first one does."""
        first = self.at(1)
        return (self.at(workers) - self.at(workers - 1)) / first if first > 0 else 0.0

    @property
    def unknowns(self) -> int:
        return sum(1 for value in self.values if value and np.isfinite(value))

    @property
    def score(self) -> float:
        return round(self.error + UNKNOWN * self.unknowns, 6)

    @property
    def confidence(self) -> float:
        """Three sizes that fit exactly are as sure as it gets; one size says nothing about the next."""
        return round(max(0.0, 1 - 4 * self.error) * min(1.0, self.sizes / 3), 3)


def points(samples: Sequence[Sample], recent: int = 12) -> list[Point]:
    """One per size, from its newest samples: medians, so that a spike moves nothing."""
    by_size: dict[int, list[Sample]] = {}
    for sample in samples:
        if sample.workers > 0 and sample.throughput > 0 and sample.seconds > 0:
            by_size.setdefault(sample.workers, []).append(sample)
    return [_point(size, found[-recent:]) for size, found in sorted(by_size.items())]


def _point(size: int, samples: list[Sample]) -> Point:
    rates = [sample.throughput for sample in samples]
    middle = median(rates)
    spread = 1.4826 * median(abs(rate - middle) for rate in rates) / middle
    return Point(size, middle, sum(sample.seconds for sample in samples), spread, len(samples))


def noise(measured: Sequence[Point]) -> float:
    """How much the throughput of one size varies from sample to sample, over all sizes together."""
    known = [point for point in measured if point.samples > 1]
    total = sum(point.samples for point in known)
    return float(np.sqrt(sum(point.spread**2 * point.samples for point in known) / total)) if total else 0.0


def fit(measured: Sequence[Point]) -> Curve | None:
    """None without a measurement. With one size both shapes are a straight line through it."""
    if not measured:
        return None
    n = np.array([float(point.workers) for point in measured])
    x = np.array([point.throughput for point in measured])
    weights = np.sqrt(np.minimum([point.seconds for point in measured], 600.0))
    if len(measured) == 1:
        return Curve("knee", (float(x[0] / n[0]), float("inf")), 0.0, 1, int(n[0]))
    return min([*_smooths(n, x, weights), *_knees(n, x, weights)], key=lambda curve: curve.score)


def _smooths(n: Array, x: Array, weights: Array) -> Iterator[Curve]:
    """With non-negative unknowns the least squares are those of some subset of them: three have seven."""
    columns = np.stack([np.ones_like(n), n, n * n], axis=1)
    scale = weights * x / n  # errors of n/X relative to n/X are, to first order, those of X relative to X
    matrix, target = columns * scale[:, None], weights.copy()
    for some in (some for size in range(1, min(3, len(n)) + 1) for some in combinations(range(3), size)):
        found, *_ = np.linalg.lstsq(matrix[:, some], target, rcond=None)
        if (found > 0).all():
            values = np.zeros(3)
            values[list(some)] = found
            yield _curve("smooth", tuple(float(value) for value in values), n, x, weights)


def _knees(n: Array, x: Array, weights: Array) -> Iterator[Curve]:
    """Sizes are in order: so many of the smallest are on the slope, the others are full."""
    square = weights**2
    for slope in range(1, len(n) + 1):
        rate = float(np.average(x[:slope] / n[:slope], weights=square[:slope]))
        top = float(np.average(x[slope:], weights=square[slope:])) if slope < len(n) else float("inf")
        yield _curve("knee", (rate, top), n, x, weights)


def _curve(shape: str, values: tuple[float, ...], n: Array, x: Array, weights: Array) -> Curve:
    curve = Curve(shape, values, 0.0, len(n), int(n.max()))
    errors = np.array([curve.at(size) for size in n]) / x - 1
    error = float(np.sqrt(np.average(errors**2, weights=weights**2)))
    return msgspec.structs.replace(curve, error=error)
