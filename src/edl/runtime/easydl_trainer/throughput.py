"""Measures throughput over intervals in which no worker came or went: only those say what a size brings.

Pure; time is an argument.
"""

import math

import msgspec

FINE = 12.0  # reports, by the root of the workers, in an interval that counts: what it misses at its ends is 3 % then
PATIENCE = 20.0  # times the least length: so long at most do rare reports keep an interval open


class TrainingSnapshot(msgspec.Struct, frozen=True):
    """Training at one moment: samples ever trained, who trains, and whether work is stopped for a while.

    `reports` is how often samples were reported, None where their number grows evenly.
    """

    total: float
    members: frozenset[object]
    stopped: bool = False
    reports: int | None = None


class Measurement(msgspec.Struct, frozen=True):
    seconds: float
    workers: int
    throughput: float


class Meter:
    """`settle`: seconds after a change that do not count (imports, warm caches, the first batches)."""

    def __init__(self, *, settle: float, least: float) -> None:
        self._settle, self._least = settle, least
        self._members: frozenset[object] = frozenset()
        self._since: float | None = None
        self._base, self._reports = 0.0, 0
        self._not_before = 0.0

    def observe(self, snapshot: TrainingSnapshot, now: float) -> None:
        if snapshot.members != self._members or snapshot.stopped:
            self._members, self._since = snapshot.members, None
            self._not_before = now + self._settle
        elif self._since is None and snapshot.members and now >= self._not_before:
            self._begin(snapshot, now)

    def cut(self, snapshot: TrainingSnapshot, now: float, *, least: float | None = None) -> Measurement | None:
        """The interval up to now, if it is long enough; the next one begins here. `least`: it will not get longer."""
        self.observe(snapshot, now)
        if self._since is None or now - self._since < (self._least if least is None else least):
            return None
        if least is None and self._coarse(snapshot, now - self._since):
            return None
        seconds = now - self._since
        measurement = Measurement(seconds, len(snapshot.members), (snapshot.total - self._base) / seconds)
        self._begin(snapshot, now)
        return measurement

    def _begin(self, snapshot: TrainingSnapshot, now: float) -> None:
        self._since, self._base, self._reports = now, snapshot.total, snapshot.reports or 0

    def _coarse(self, snapshot: TrainingSnapshot, seconds: float) -> bool:
        """Whether whole reports, of which each worker has one under way at both ends, are too much of the count."""
        if snapshot.reports is None or seconds >= PATIENCE * self._least:
            return False
        return snapshot.reports - self._reports < FINE * math.sqrt(len(snapshot.members))
