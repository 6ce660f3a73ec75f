"""State carried from one plan to the next, as an explicit value: `plan(snapshot, memory, now) -> Plan(..., memory)`.

Safe to lose: it holds no target, only back-offs, waiting times and reservations. Entries of what is gone are dropped,
so it stays as small as the cluster. It is plain data and survives a trip through JSON.
"""

import msgspec


class Backoff(msgspec.Struct, frozen=True):
    until: float
    strikes: int = 1


class UserSize(msgspec.Struct, frozen=True):
    """A user has set this size; the scheduler leaves it alone until then (decision 10)."""

    size: int
    until: float


class RefusedGrant(msgspec.Struct, frozen=True):
    """A grant was given back because its pods were refused; an edit of the job is reason to try again."""

    backoff: Backoff
    message: str
    generation: int


class Served(msgspec.Struct, frozen=True):
    """Capacity was reclaimed for a foreign pod."""

    owner: str
    at: float


class Promise(msgspec.Struct, frozen=True):
    """Capacity is being freed for a job to grow to this size."""

    size: int
    made: float


class Relocation(msgspec.Struct, frozen=True):
    """A job has grown on new nodes to come together there: it goes back to this size, away from those nodes."""

    size: int
    nodes: tuple[str, ...]
    made: float


Reservation = dict[str, dict[str, int]]
"""Role to node to pods."""


class Memory(msgspec.Struct, frozen=True):
    entries: dict[str, float] = {}
    """Job: the score that it entered with (decision 21)."""
    waiting: dict[str, float] = {}
    """Job: since when its minimum waits."""
    starts: dict[str, int] = {}
    """Job: the size that its user wanted in the last plan; a change is a manual scale (decision 10)."""
    minima: dict[str, int] = {}
    """Job: its minimum in the last plan, which is the size to start with where the user wrote none."""
    user_sizes: dict[str, UserSize] = {}
    requests: dict[str, str] = {}
    """Job: the last request for a size that was obeyed; status records it as well."""
    edits: dict[str, str] = {}
    """Job: the last edit of its sizes."""
    open_edits: frozenset[str] = frozenset()
    """Jobs that have not changed their size since: no freezing window of an earlier change holds them up."""
    starting: dict[str, float] = {}
    """Job: when it was granted the size that it names to start with; it grows once that runs."""
    promises: dict[str, Promise] = {}
    relocations: dict[str, Relocation] = {}
    reservations: dict[str, Reservation] = {}
    """Job: where capacity is being freed for it."""
    shapes: dict[str, Backoff] = {}
    """Shape that kube-scheduler refused (decision 26)."""
    refused: dict[str, RefusedGrant] = {}
    """Job whose pods the API server refused."""
    served: dict[str, Served] = {}
    """Foreign pod, by uid."""
    owners: dict[str, Backoff] = {}
    """Owner of foreign pods that reclaimed capacity did not help (decision 23)."""


def strike(known: Backoff | None, now: float, first: float, longest: float) -> Backoff:
    """Twice as long each time; reset after as long again without a strike."""
    if known is None or now >= known.until + _length(known.strikes, first, longest):
        return Backoff(until=now + first)
    strikes = known.strikes + 1
    return Backoff(until=now + _length(strikes, first, longest), strikes=strikes)


def _length(strikes: int, first: float, longest: float) -> float:
    return float(min(first * 2 ** min(strikes - 1, 30), longest))
