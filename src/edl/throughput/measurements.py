"""What a job has measured of itself: throughput by size, placement and batch, the pause of a change, gradient noise.

Plain data of at most 4 KiB, whatever was reported, so that it can be kept in the job's own state: of many points those
measured last stay, and old samples of a point fade. Nonsense is not a measurement.
"""

import math
from typing import Annotated

import msgspec

MOST_POINTS = 32
MEMORY = 300.0  # seconds of samples of one point that count; older ones fade
MOST_SAMPLES = 50
MOVED = 0.05  # a throughput that changes by less is the same
MOST_WORKERS = 1_000_000
LEAST, MOST = 1e-12, 1e15
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
"""Whoever may edit the job's state may write any number there; floats hold no larger one."""


class MeasuredPoint(msgspec.Struct, frozen=True, array_like=True):
    """The mean throughput of so many workers on so many nodes (0: not known) with a batch (0: not known)."""

    workers: Count
    nodes: Count
    batch: Count
    throughput: float
    seconds: float
    spread: float = 0.0
    """Standard deviation between samples, relative."""
    samples: Count = 1

    @property
    def where(self) -> tuple[int, int, int]:
        return self.workers, self.nodes, self.batch


class Measurements(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of one job. Throughput counts samples, or steps of a job that tells no samples."""

    points: tuple[MeasuredPoint, ...] = ()
    """Those measured last come last."""
    steps: bool = False
    """Throughput counts steps."""
    per_step: float | None = None
    """Throughput's units in one of the steps that `done` and `total` count."""
    done: Count | None = None
    total: Count | None = None
    pause: float | None = None
    """Seconds that a change of size stopped training, as far as the reports tell."""
    noise: float | None = None
    tuned_batch: Count | None = None

    @property
    def remaining(self) -> float | None:
        """Work that is left, in throughput's units; None where it is not declared."""
        if self.done is None or self.total is None or self.total <= 0:
            return None
        left = float(max(0, self.total - self.done))
        if self.steps:
            return left
        return left * self.per_step if self.per_step is not None else None


def sensible(point: MeasuredPoint) -> bool:
    """Comparisons with a NaN are false."""
    placed = 0 <= point.nodes <= max(point.workers, 0) and point.batch >= 0
    return (
        1 <= point.workers <= MOST_WORKERS
        and placed
        and LEAST < point.throughput < MOST
        and 0 < point.seconds < math.inf
        and point.batch < MOST
    )


def with_sample(known: Measurements, sample: MeasuredPoint) -> Measurements:
    """The same with one more sample; a sample that makes no sense changes nothing."""
    if not sensible(sample):
        return known
    before = next((point for point in known.points if point.where == sample.where), None)
    others = [point for point in known.points if point is not before]
    merged = sample if before is None else _merged(before, sample)
    return msgspec.structs.replace(known, points=tuple([*others, _rounded(merged)][-MOST_POINTS:]))


def _merged(before: MeasuredPoint, sample: MeasuredPoint) -> MeasuredPoint:
    weight = min(before.seconds, MEMORY - min(sample.seconds, MEMORY / 2))
    share = sample.seconds / (weight + sample.seconds)
    mean = before.throughput + share * (sample.throughput - before.throughput)
    off = (sample.throughput - before.throughput) / mean
    variance = (1 - share) * (before.spread**2 + share * off * off)
    return msgspec.structs.replace(
        before,
        throughput=mean,
        seconds=weight + sample.seconds,
        spread=min(math.sqrt(variance), 10.0),
        samples=min(before.samples + 1, MOST_SAMPLES),
    )


def _rounded(point: MeasuredPoint) -> MeasuredPoint:
    """To what matters, so that many of them stay small."""
    return msgspec.structs.replace(
        point,
        throughput=float(f"{point.throughput:.6g}"),
        seconds=round(point.seconds, 1) or 0.1,
        spread=round(point.spread, 4),
    )


def has_news(known: Measurements, now: Measurements) -> bool:
    """Whether the curve, the pause or the noise would be another. How far the job has come is no news."""
    throughputs = {point.where: point.throughput for point in known.points}
    if throughputs.keys() != {point.where for point in now.points}:
        return True
    if any(_moved(throughputs[point.where], point.throughput, MOVED) for point in now.points):
        return True
    same = (known.steps, known.tuned_batch) == (now.steps, now.tuned_batch)
    return not same or _moved(known.pause, now.pause, 0.2) or _moved(known.noise, now.noise, 0.2)


def _moved(before: float | None, after: float | None, share: float) -> bool:
    if before is None or after is None:
        return before is not after
    return abs(after - before) > share * abs(before)
