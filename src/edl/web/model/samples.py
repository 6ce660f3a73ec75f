"""Series that the server keeps while it watches, bounded in points per job and in all: what is old gets coarser.

They begin when the server does; Brain's history is for what was before.
"""

from array import array
from collections import OrderedDict, deque
from collections.abc import Sequence
from math import isnan
from typing import NamedTuple

from edl.web.types import ClusterSample, JobRow, Points

PER_JOB = 240
IN_ALL = 200_000
CLUSTER = 720


class Point(NamedTuple):
    time: float
    now: int | None
    target: int | None
    loss: float | None
    throughput: float | None


WIDTH = len(Point._fields)
_NOTHING = float("nan")


class JobSeries:
    """The points of every job. When they are too many, the job that changed longest ago loses its own.

    A job's are numbers in one array: objects would take four times the memory, in small pieces that never come back.
    """

    def __init__(self, *, per_job: int = PER_JOB, in_all: int = IN_ALL) -> None:
        self._per_job, self._in_all = per_job, in_all
        self._numbers: OrderedDict[str, array[float]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, key: str, point: Point) -> bool:
        """Whether it says anything that the last one did not."""
        numbers = self._numbers.setdefault(key, array("d"))
        if numbers and _points(numbers[-WIDTH:])[0][1:] == point[1:]:
            return False
        numbers.extend(_numbers(point))
        self._count += 1
        self._numbers.move_to_end(key)
        if len(numbers) > self._per_job * WIDTH:
            self._thin(key)
        while self._count > self._in_all and len(self._numbers) > 1:
            self.forget(next(iter(self._numbers)))
        return True

    def _thin(self, key: str) -> None:
        """Every second one of the older half goes, but none at which the size changed."""
        points = self.of(key)
        half = len(points) // 2
        kept = [
            point
            for index, point in enumerate(points[:half])
            if index % 2 == 0 or (index and points[index - 1][1:3] != point[1:3])
        ]
        if len(kept) == half:  # nothing but changes of size: the oldest go
            kept = kept[half // 2 :]
        self._count -= half - len(kept)
        self._numbers[key] = array("d", [number for point in (*kept, *points[half:]) for number in _numbers(point)])

    def forget(self, key: str) -> None:
        self._count -= len(self._numbers.pop(key, ())) // WIDTH

    def of(self, key: str) -> list[Point]:
        return _points(self._numbers.get(key, ()))


def _numbers(point: Point) -> list[float]:
    return [_NOTHING if value is None else value for value in point]


def _points(numbers: Sequence[float]) -> list[Point]:
    found = []
    for at in range(0, len(numbers), WIDTH):
        time, *values = (None if isnan(number) else number for number in numbers[at : at + WIDTH])
        now, target, loss, throughput = values
        found.append(Point(time or 0.0, _whole(now), _whole(target), loss, throughput))
    return found


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)


def point_of(row: JobRow, now: float) -> Point:
    return Point(now, row.now, row.target, row.loss, row.throughput)


def columns(points: list[Point]) -> Points:
    return Points(
        time=[point.time for point in points],
        now=[point.now for point in points],
        target=[point.target for point in points],
        loss=[point.loss for point in points],
        throughput=[point.throughput for point in points],
    )


class ClusterSeries:
    """The last samples of the whole cluster."""

    def __init__(self, most: int = CLUSTER) -> None:
        self._samples: deque[ClusterSample] = deque(maxlen=most)

    def add(self, sample: ClusterSample) -> None:
        self._samples.append(sample)

    def all(self) -> list[ClusterSample]:
        return list(self._samples)
