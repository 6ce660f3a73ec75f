"""What one plan must tell the next one, as an explicit value: `plan(snapshot, memory, now) -> Plan(..., memory)`.

Losing it is safe: it holds no target and no truth, only patience. Entries of what is gone are dropped, so it stays as
small as the cluster. It is plain data and survives a trip through JSON.
"""

import msgspec


class Backoff(msgspec.Struct, frozen=True):
    until: float
    strikes: int = 1


class Served(msgspec.Struct, frozen=True):
    """Room was made for a foreign pod."""

    owner: str
    at: float


class Promise(msgspec.Struct, frozen=True):
    """Room is being made for a job to grow to this size."""

    size: int
    made: float


Room = dict[str, dict[str, int]]
"""Role to node to pods."""


class Memory(msgspec.Struct, frozen=True):
    entries: dict[str, float] = {}
    """Job: the score that it entered with (decision 21)."""
    waiting: dict[str, float] = {}
    """Job: since when its minimum waits."""
    starts: dict[str, int] = {}
    """Job: the size that its user asked for when we last looked; a change is a manual scale (decision 10)."""
    promises: dict[str, Promise] = {}
    rooms: dict[str, Room] = {}
    """Job: where the room that is being made for it is."""
    shapes: dict[str, Backoff] = {}
    """Shape that kube-scheduler refused (decision 26)."""
    served: dict[str, Served] = {}
    """Foreign pod, by uid."""
    owners: dict[str, Backoff] = {}
    """Owner of foreign pods for which room did not help (decision 23)."""


def strike(known: Backoff | None, now: float, first: float, longest: float) -> Backoff:
    """Twice as long each time, and forgiven after as long again in peace."""
    if known is None or now >= known.until + _length(known.strikes, first, longest):
        return Backoff(until=now + first)
    strikes = known.strikes + 1
    return Backoff(until=now + _length(strikes, first, longest), strikes=strikes)


def _length(strikes: int, first: float, longest: float) -> float:
    return float(min(first * 2 ** min(strikes - 1, 30), longest))
