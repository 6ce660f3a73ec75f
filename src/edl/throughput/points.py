"""Measured throughput by size, with its noise: a difference within the noise is no difference."""

import math
from collections.abc import Sequence

import msgspec

PRIOR_NOISE = 0.05  # standard deviation assumed before samples show one
PRIOR_WEIGHT = 2  # in degrees of freedom
STANDARD_ERRORS = 2.0  # that make a difference significant


class ThroughputPoint(msgspec.Struct, frozen=True):
    """The throughput measured at one size: its mean, over how many seconds, and its spread between samples."""

    workers: int
    throughput: float
    seconds: float
    spread: float = 0.0
    samples: int = 1


def noise(measured: Sequence[ThroughputPoint]) -> float:
    """The standard deviation of throughput between samples of one size, pooled over all sizes, as a share of the
    throughput. A prior counts while samples are few."""
    squares = sum(point.spread**2 * (point.samples - 1) for point in measured)
    return math.sqrt((PRIOR_WEIGHT * PRIOR_NOISE**2 + squares) / _degrees_of_freedom(measured))


def confidence_factor(measured: Sequence[ThroughputPoint]) -> float:
    """Standard errors of a confidence interval: two, more while the noise is uncertain (nearly Student's t)."""
    return STANDARD_ERRORS * (1 + 1.7 / _degrees_of_freedom(measured))


def _degrees_of_freedom(measured: Sequence[ThroughputPoint]) -> int:
    return PRIOR_WEIGHT + sum(point.samples - 1 for point in measured)


def standard_error(varies: float, *measured: ThroughputPoint) -> float:
    """The standard error of a size's throughput, or of the ratio of two sizes'."""
    return varies * math.sqrt(sum(1 / point.samples for point in measured))
