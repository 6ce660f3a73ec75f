"""Notes which restored jobs wait for the state that they were backed up with, for their status to say so.

Whoever reads a state finds out: a pod's call, or the operator when it looks for what the job has measured, every two
seconds until it can be read. Nothing is read for this alone. Safe to lose: a new leader finds out anew.
"""

import msgspec

from edl.operator.job_service.record import JobRecord, Jobs, Name
from edl.operator.job_service.state import JobState
from edl.operator.job_service.store import NotRestoredError, Store, Stored


class _Found(msgspec.Struct, frozen=True):
    uid: str
    wait: str
    """What the job waits for and what to do, empty if its state is there."""


class RestoreWatch:
    """A store like the one in it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._found: dict[Name, _Found] = {}
        self._news: set[Name] = set()

    async def load(self, namespace: str, name: str, record: JobRecord) -> Stored | None:
        try:
            stored = await self._store.load(namespace, name, record)
        except NotRestoredError as error:
            self._note((namespace, name, record.tag), _Found(record.uid, str(error)))
            raise
        if record.restored_from:
            self._note((namespace, name, record.tag), _Found(record.uid, ""))
        return stored

    async def save(self, namespace: str, name: str, record: JobRecord, state: JobState, version: str | None) -> str:
        return await self._store.save(namespace, name, record, state, version)

    def wait_of(self, name: Name) -> str | None:
        """What the job waits for; empty: nothing; None: it is not known yet."""
        found = self._found.get(name)
        return found.wait if found is not None else None

    def take_news(self, jobs: Jobs) -> set[Name]:
        """Jobs of which something else was found since the last call. Those that are gone are forgotten."""
        self._found = {
            name: found
            for name, found in self._found.items()
            if any(record.uid == found.uid for record in jobs(*name[:2]))
        }
        taken, self._news = self._news & set(self._found), set()
        return taken

    def clear(self) -> None:
        self._found.clear()
        self._news.clear()

    def _note(self, name: Name, found: _Found) -> None:
        if self._found.get(name) != found:
            self._found[name] = found
            self._news.add(name)
