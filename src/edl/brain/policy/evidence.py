"""What the samples of each size say together, and how sure that is: a difference that the noise allows is none."""

import math
from collections.abc import Sequence
from statistics import fmean, median

import msgspec

from .facts import Sample

RECENT = 24  # newest samples of a size that count: what was long ago may have been another time of day
SPIKE = 4.5  # a sample that is so many times as far from the median as the others are is held there,
NEAR = 0.1  # but not if it is as near as this
SUPPOSED = 0.05  # how much samples vary from one to the next, before anything is known of it
WORTH = 2  # as many samples as that supposition is worth
SURE = 2.0


class Point(msgspec.Struct, frozen=True):
    """What was measured at one size: the throughput, over how long, how much it varied from sample to sample."""

    workers: int
    throughput: float
    seconds: float
    spread: float = 0.0
    samples: int = 1


def points(samples: Sequence[Sample]) -> list[Point]:
    """One per size, smallest first, from all its samples: whatever was measured there, and when."""
    by_size: dict[int, list[Sample]] = {}
    for sample in samples:
        if sample.workers > 0 and sample.throughput > 0 and sample.seconds > 0:
            by_size.setdefault(sample.workers, []).append(sample)
    return [point(size, found[-RECENT:]) for size, found in sorted(by_size.items())]


def point(size: int, samples: Sequence[Sample]) -> Point:
    """The mean, in which a spike counts as little as a spike may."""
    rates = [sample.throughput for sample in samples]
    middle = median(rates)
    reach = max(NEAR * middle, SPIKE * median(abs(rate - middle) for rate in rates))
    held = [min(max(rate, middle - reach), middle + reach) for rate in rates]
    mean = fmean(held)
    squares = sum((rate / mean - 1) ** 2 for rate in held)
    spread = math.sqrt(squares / (len(held) - 1)) if len(held) > 1 else 0.0
    return Point(size, mean, sum(sample.seconds for sample in samples), spread, len(held))


def noise(measured: Sequence[Point]) -> float:
    """How much the throughput of a size varies from sample to sample, by all sizes together: the standard deviation,
    as a share of the throughput. A supposition counts as long as there are few samples."""
    squares = sum(point.spread**2 * (point.samples - 1) for point in measured)
    return math.sqrt((WORTH * SUPPOSED**2 + squares) / _freedom(measured))


def sure(measured: Sequence[Point]) -> float:
    """Standard errors that make sure: two, and more as long as the noise itself is a guess (Student's t, nearly)."""
    return SURE * (1 + 1.7 / _freedom(measured))


def _freedom(measured: Sequence[Point]) -> int:
    return WORTH + sum(point.samples - 1 for point in measured)


def doubt(varies: float, *measured: Point) -> float:
    """The standard error of a size's throughput, or of the ratio of two sizes'."""
    return varies * math.sqrt(sum(1 / point.samples for point in measured))
