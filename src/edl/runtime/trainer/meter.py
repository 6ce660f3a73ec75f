"""Throughput over stretches in which nobody came or went: only those say what a size brings. Pure: time is given."""

import msgspec


class Look(msgspec.Struct, frozen=True):
    """Training at one moment: samples ever trained, who trains, and whether work is stopped for a while."""

    total: float
    members: frozenset[object]
    stopped: bool = False


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
        self._base = 0.0
        self._not_before = 0.0

    def look(self, look: Look, now: float) -> None:
        if look.members != self._members or look.stopped:
            self._members, self._since = look.members, None
            self._not_before = now + self._settle
        elif self._since is None and look.members and now >= self._not_before:
            self._since, self._base = now, look.total

    def cut(self, look: Look, now: float, *, least: float | None = None) -> Stretch | None:
        """The stretch up to now, if it is long enough; the next one begins here."""
        self.look(look, now)
        if self._since is None or now - self._since < (self._least if least is None else least):
            return None
        seconds, trained = now - self._since, look.total - self._base
        self._since, self._base = now, look.total
        return Stretch(seconds, len(look.members), trained / seconds)
