"""Samples of a running job as throughput by number of workers."""

import math
from collections.abc import Sequence
from statistics import fmean, median

from edl.protocol.job_facts import Sample
from edl.throughput.points import ThroughputPoint

RECENT = 24  # newest samples of a size that count; conditions change over the day
OUTLIER = 4.5  # a sample is clipped to so many median deviations from the median,
OUTLIER_LEAST = 0.1  # but never closer than this share of it


def throughput_points(samples: Sequence[Sample]) -> list[ThroughputPoint]:
    """One per size, smallest first, from the recent samples of that size."""
    by_size: dict[int, list[Sample]] = {}
    for sample in samples:
        if sample.workers > 0 and sample.throughput > 0 and sample.seconds > 0:
            by_size.setdefault(sample.workers, []).append(sample)
    return [throughput_point(size, found[-RECENT:]) for size, found in sorted(by_size.items())]


def throughput_point(size: int, samples: Sequence[Sample]) -> ThroughputPoint:
    """The mean with outliers clipped."""
    rates = [sample.throughput for sample in samples]
    middle = median(rates)
    reach = max(OUTLIER_LEAST * middle, OUTLIER * median(abs(rate - middle) for rate in rates))
    held = [min(max(rate, middle - reach), middle + reach) for rate in rates]
    mean = fmean(held)
    squares = sum((rate / mean - 1) ** 2 for rate in held)
    spread = math.sqrt(squares / (len(held) - 1)) if len(held) > 1 else 0.0
    return ThroughputPoint(size, mean, sum(sample.seconds for sample in samples), spread, len(held))
