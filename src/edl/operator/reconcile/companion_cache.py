"""The companions of jobs (JobResources): read and checked once per version, and found by the job that they name.

One that is edited into something invalid is as if it were not there: the job goes on with what it follows.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from edl.api.schema.problem import Problem, errors
from edl.jobs.core.kind import Companion, Kind
from edl.kube.cache.indexes import Index
from edl.kube.cache.informer import Informer
from edl.kube.cache.objects import Key
from edl.operator.reconcile.checked_object import check_raw, status_of
from edl.operator.resources import RawJob

BY_JOB = "job"


def index_by_job(companion: Companion) -> Index:
    return Index("spec", lambda spec: tuple(filter(None, (companion.names_job(spec),))))


def jobs_named(companion: Companion) -> Callable[[RawJob | None, RawJob | None], set[Key]]:
    """Finds the jobs that a change of a companion concerns."""

    def keys(old: RawJob | None, new: RawJob | None) -> set[Key]:
        items = (item for item in (old, new) if item is not None)
        named = ((item.metadata.namespace, companion.names_job(item.spec)) for item in items)
        return {key for key in named if key[1]}

    return keys


class CompanionEntry(msgspec.Struct, frozen=True):
    """`companion` is None if the spec is refused."""

    kind: Kind
    raw: RawJob
    companion: Any
    problems: tuple[Problem, ...]

    @property
    def refused(self) -> tuple[Problem, ...]:
        return tuple(errors(self.problems))

    @property
    def status(self) -> Any:
        return self.companion.status if self.companion is not None else status_of(self.kind.status, self.raw)


class CompanionCache:
    """`raw` is the informer of this kind, with the index `BY_JOB`."""

    def __init__(self, kind: Kind, raw: Informer[RawJob]) -> None:
        self._kind, self._raw = kind, raw
        self._entries: dict[Key, CompanionEntry] = {}

    def entry(self, key: Key) -> CompanionEntry | None:
        raw = self._raw.get(key)
        if raw is None:
            self._entries.pop(key, None)
            return None
        known = self._entries.get(key)
        if known is None or known.raw is not raw:
            known = self._entries[key] = self._read(raw)
        return known

    def of(self, namespace: str, job: str) -> tuple[Any, ...]:
        """The valid ones that name a job."""
        return self._valid(item for item in self._raw.by(BY_JOB, job) if item.metadata.namespace == namespace)

    def all(self) -> tuple[Any, ...]:
        return self._valid(self._raw.all())

    def _valid(self, found: Iterable[RawJob]) -> tuple[Any, ...]:
        entries = (self.entry((raw.metadata.namespace, raw.metadata.name)) for raw in found)
        return tuple(entry.companion for entry in entries if entry is not None and entry.companion is not None)

    def _read(self, raw: RawJob) -> CompanionEntry:
        checked = check_raw(raw)
        companion = checked.object if isinstance(checked.object, self._kind.type) else None
        return CompanionEntry(self._kind, raw, companion, checked.problems)
