"""Makes a job's model of what it has measured: rates by size, on few nodes and on many, and the work that is left.

A rate is worth less where a larger batch is (gradient noise). Being on more nodes than needed is a factor, taken from
the sizes that were measured both ways. The curve through the sizes is the Brain's.
"""

import math
from collections.abc import Sequence

from msgspec import structs

from edl.throughput.efficiency import efficiency
from edl.throughput.measurements import MeasuredPoint, Measurements, sensible
from edl.throughput.model import JobModel, curve_model
from edl.throughput.points import ThroughputPoint

FEW_SIZES = 0.2  # relative error of a curve through one size, which is a guess beyond it
LONGEST_PAUSE = 3600.0
LEAST_SHARE = 0.01  # of its rate that a job is believed to keep when it is scattered


def measured_model(known: Measurements, most: int) -> JobModel | None:
    """Up to a maximum; None of a job that has measured nothing."""
    points = [structs.replace(point, throughput=_worth(known, point)) for point in known.points if sensible(point)]
    compact = _compact(points)
    model = curve_model([_merged(group) for group in compact.values()], most)
    if model is None:
        return None
    share = _scattered_share(points, compact)
    if share is not None:
        model = structs.replace(model, scattered=tuple(rate * share for rate in model.rates))
    uncertainty = max(model.uncertainty, FEW_SIZES) if len(compact) == 1 else model.uncertainty
    pause = known.pause if known.pause is not None and 0 <= known.pause <= LONGEST_PAUSE else None
    return structs.replace(
        model, measured=len(compact), uncertainty=uncertainty, remaining=remaining_work(known), pause=pause
    )


def remaining_work(known: Measurements) -> float | None:
    """In the model's unit. Of samples that count less in a large batch, fewer are left."""
    left = known.remaining
    last = known.points[-1] if known.points else None
    if left is None or last is None:
        return None
    worth = _worth(known, last) / last.throughput if last.throughput > 0 else 1.0
    if not 0 <= left * worth < math.inf:
        return None
    return float(f"{left * worth:.2g}")  # coarse: whoever keeps what follows from it need not do so anew each second


def _worth(known: Measurements, point: MeasuredPoint) -> float:
    """Samples of the tuned batch per second."""
    noise, tuned = known.noise, known.tuned_batch
    if noise is None or tuned is None or not (noise > 0 and 0 < tuned <= point.batch):
        return point.throughput
    return point.throughput * efficiency(noise, point.batch, tuned)


def _compact(points: Sequence[MeasuredPoint]) -> dict[int, list[MeasuredPoint]]:
    """By size: the points on the fewest nodes; those on nobody knows how many, if there are no others."""
    by_size: dict[int, list[MeasuredPoint]] = {}
    for point in points:
        by_size.setdefault(point.workers, []).append(point)
    found: dict[int, list[MeasuredPoint]] = {}
    for size, group in by_size.items():
        fewest = min((point.nodes for point in group if point.nodes), default=0)
        found[size] = [point for point in group if point.nodes == fewest]
    return found


def _merged(group: Sequence[MeasuredPoint]) -> ThroughputPoint:
    """Whatever the batch was."""
    seconds = sum(point.seconds for point in group)
    mean = sum(point.throughput * point.seconds for point in group) / seconds
    spread = max(point.spread for point in group)
    return ThroughputPoint(group[0].workers, mean, seconds, spread, sum(point.samples for point in group))


def _scattered_share(points: Sequence[MeasuredPoint], compact: dict[int, list[MeasuredPoint]]) -> float | None:
    """Of its rate that the job keeps on more nodes; None if nobody has seen it on more than it needs."""
    shares = []
    for point in points:
        least = compact[point.workers][0]
        if 0 < least.nodes < point.nodes:
            rate = _merged(compact[point.workers]).throughput
            shares.append((point.seconds, min(1.0, max(LEAST_SHARE, point.throughput / rate))))
    if not shares:
        return None
    return sum(seconds * share for seconds, share in shares) / sum(seconds for seconds, _ in shares)
