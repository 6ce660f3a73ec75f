"""Throughput over stretches in which nobody came or went: only those say what a size brings. Pure: time is given."""

import math

import msgspec

FINE = 12.0  # reports, by the root of the workers, in a stretch that counts: what it misses at its ends is 3 % then
PATIENCE = 20.0  # times the least length: so long at most do rare reports keep a stretch open


class Look(msgspec.Struct, frozen=True):
    """Training at one moment: samples ever trained, who trains, and whether work is stopped for a while.

    `reports` is how often samples were reported, None where their number grows evenly.
    """

    total: float
    members: frozenset[object]
    stopped: bool = False
    reports: int | None = None


class Stretch(msgspec.Struct, frozen=True):
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

    def look(self, look: Look, now: float) -> None:
        if look.members != self._members or look.stopped:
            self._members, self._since = look.members, None
            self._not_before = now + self._settle
        elif self._since is None and look.members and now >= self._not_before:
            self._begin(look, now)

    def cut(self, look: Look, now: float, *, least: float | None = None) -> Stretch | None:
        """The stretch up to now, if it is long enough; the next one begins here. `least`: it will not get longer."""
        self.look(look, now)
        if self._since is None or now - self._since < (self._least if least is None else least):
            return None
        if least is None and self._coarse(look, now - self._since):
            return None
        stretch = Stretch(now - self._since, len(look.members), (look.total - self._base) / (now - self._since))
        self._begin(look, now)
        return stretch

    def _begin(self, look: Look, now: float) -> None:
        self._since, self._base, self._reports = now, look.total, look.reports or 0

    def _coarse(self, look: Look, seconds: float) -> bool:
        """Whether whole reports, of which each worker has one under way at both ends, are too much of the count."""
        if look.reports is None or seconds >= PATIENCE * self._least:
            return False
        return look.reports - self._reports < FINE * math.sqrt(len(look.members))
