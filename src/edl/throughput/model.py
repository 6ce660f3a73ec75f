"""The throughput model of one job as plain data: its rate at every size that matters, and how far that is known.

A *rate* is work per second; any unit will do as long as `remaining` has the same. Rates come from a fitted step time or
curve, or from the prior. Whatever was reported, a model is finite, positive and ordered, or there is none: a plan never
has to distrust it.
"""

import bisect
import math
from collections.abc import Sequence

import msgspec

from edl.throughput.curve import fit
from edl.throughput.points import ThroughputPoint

PRIOR_EXPONENT = 0.8  # a job of which nothing is known speeds up as this power of its size


class JobModel(msgspec.Struct, frozen=True):
    """`rates` belongs to `sizes`, which ascend. Between them it is a straight line, beyond them constant."""

    sizes: tuple[int, ...]
    rates: tuple[float, ...]
    scattered: tuple[float, ...] = ()
    """Rates on more nodes than the size needs; empty where that is not known to matter."""
    explored: int = 0
    """The largest size that was measured; rates beyond it are a guess."""
    measured: int = 0
    """How many sizes were; 0 where the model comes from elsewhere."""
    uncertainty: float = 0.0
    """Relative error of the rates."""
    remaining: float | None = None
    """Work that is left, where the job declares it."""
    pause: float | None = None
    """Seconds that a change of size costs, as far as the job's reports tell."""

    def rate(self, size: float) -> float:
        return self._between(self.rates, size)

    def scattered_rate(self, size: float) -> float:
        return self._between(self.scattered or self.rates, size)

    def _between(self, rates: tuple[float, ...], size: float) -> float:
        sizes = self.sizes
        if size <= 0:
            return 0.0
        at = bisect.bisect_left(sizes, size)
        if at == len(sizes):
            return rates[-1]
        if sizes[at] == size:
            return rates[at]
        low, below = (sizes[at - 1], rates[at - 1]) if at else (0, 0.0)
        return below + (rates[at] - below) * (size - low) / (sizes[at] - low)

    def seconds_left(self, size: int) -> float | None:
        """At this size; None where the remaining work is not known."""
        return None if self.remaining is None else self.remaining / self.rate(size)


def job_model(
    sizes: Sequence[int],
    rates: Sequence[float],
    *,
    scattered: Sequence[float] = (),
    explored: int = 0,
    uncertainty: float = 0.0,
    remaining: float | None = None,
) -> JobModel | None:
    """A model of what makes sense of these; None if nothing does."""
    pairs = zip(sizes, rates, strict=False)
    sensible = {size: rate for size, rate in pairs if size > 0 and math.isfinite(rate) and 1e-12 < rate < 1e15}
    if not sensible:
        return None
    if remaining is not None and not (math.isfinite(remaining) and remaining >= 0):
        remaining = None
    ordered = sorted(sensible)
    slower = dict(zip(sizes, scattered, strict=False))
    return JobModel(
        tuple(ordered),
        tuple(sensible[size] for size in ordered),
        scattered=tuple(_slower(sensible[size], slower.get(size)) for size in ordered) if slower else (),
        explored=max(0, explored),
        uncertainty=uncertainty if 0 <= uncertainty < 1 else 1.0,
        remaining=remaining,
    )


def _slower(rate: float, scattered: float | None) -> float:
    """Being scattered makes nobody faster."""
    return rate if scattered is None or not 0 <= scattered <= rate else scattered


def prior_rate(size: float) -> float:
    return float(size**PRIOR_EXPONENT) if size > 0 else 0.0


def curve_model(points: Sequence[ThroughputPoint], most: int, *, remaining: float | None = None) -> JobModel | None:
    """Of a job that reports throughput by size alone: the curve that explains it, up to a maximum."""
    sensible = [point for point in points if point.workers > 0 and 1e-12 < point.throughput < 1e15]
    curve = fit(sensible)
    if curve is None:
        return None
    sizes = sorted({size for size in _spread(most) if size <= most} | {point.workers for point in sensible})
    rates = [curve.at(size) for size in sizes]
    return job_model(sizes, rates, explored=curve.largest, uncertainty=curve.error, remaining=remaining)


def _spread(most: int) -> list[int]:
    """Every size up to eight, then eighths of powers of two: a curve is smooth."""
    sizes = list(range(1, 9))
    while sizes[-1] < most:
        step = 1 << max(0, sizes[-1].bit_length() - 3)
        sizes.append(sizes[-1] + step)
    return [*sizes, most] if most > 0 else sizes
