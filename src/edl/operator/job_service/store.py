"""Storage of job states: the contract, and one in memory for tests and for jobs that run without a cluster."""

from typing import Protocol

import msgspec

from edl.operator.job_service.record import JobRecord
from edl.operator.job_service.state import JobState


class ConflictError(Exception):
    """What is stored is not what the writer had read."""


class UnavailableError(Exception):
    """The store did not answer; whether a write took place is unknown."""


class NotRestoredError(UnavailableError):
    """The job was restored on this cluster, and the state that it had is not there, or is not proven to be its own. A
    person has to do something about it, which the message says."""


class Stored(msgspec.Struct, frozen=True):
    state: JobState
    version: str


class Store(Protocol):
    """`save` must be compare-and-set: it writes only if `version` is still the stored one (None: nothing is stored).

    Both may raise UnavailableError, `save` also ConflictError. What belongs to an older job of the same name (another
    uid) counts as absent and is replaced; what belongs to somebody else is never touched and is an UnavailableError.
    """

    async def load(self, namespace: str, name: str, record: JobRecord) -> Stored | None: ...

    async def save(self, namespace: str, name: str, record: JobRecord, state: JobState, version: str | None) -> str: ...


class MemoryStore:
    def __init__(self) -> None:
        self.kept: dict[tuple[str, str, str], Stored] = {}
        self.writes = 0

    async def load(self, namespace: str, name: str, record: JobRecord) -> Stored | None:
        return self.kept.get((namespace, name, record.uid))

    async def save(self, namespace: str, name: str, record: JobRecord, state: JobState, version: str | None) -> str:
        key = (namespace, name, record.uid)
        if (self.kept[key].version if key in self.kept else None) != version:
            raise ConflictError(f"{namespace}/{name} was written by another")
        self.writes += 1
        self.kept[key] = Stored(state, str(self.writes))
        return self.kept[key].version
