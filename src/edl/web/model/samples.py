"""Series that the server keeps while it watches, bounded in points per job and in all: what is old gets coarser.

They begin when the server does; Brain's history is for what was before.
"""

from collections import OrderedDict, deque
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


class JobSeries:
    """The points of every job. When they are too many, the job that changed longest ago loses its own."""

    def __init__(self, *, per_job: int = PER_JOB, in_all: int = IN_ALL) -> None:
        self._per_job, self._in_all = per_job, in_all
        self._points: OrderedDict[str, list[Point]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, key: str, point: Point) -> bool:
        """Whether it says anything that the last one did not."""
        points = self._points.setdefault(key, [])
        if points and points[-1][1:] == point[1:]:
            return False
        points.append(point)
        self._count += 1
        self._points.move_to_end(key)
        if len(points) > self._per_job:
            self._thin(key, points)
        while self._count > self._in_all and len(self._points) > 1:
            self.forget(next(iter(self._points)))
        return True

    def _thin(self, key: str, points: list[Point]) -> None:
        """Every second one of the older half goes, but none at which the size changed."""
        half = len(points) // 2
        kept = [
            point
            for index, point in enumerate(points[:half])
            if index % 2 == 0 or (index and points[index - 1][1:3] != point[1:3])
        ]
        if len(kept) == half:  # nothing but changes of size: the oldest go
            kept = kept[half // 2 :]
        self._count -= half - len(kept)
        self._points[key] = kept + points[half:]

    def forget(self, key: str) -> None:
        self._count -= len(self._points.pop(key, ()))

    def of(self, key: str) -> list[Point]:
        return list(self._points.get(key, ()))


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
