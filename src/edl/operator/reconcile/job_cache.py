"""The cache of jobs: read, checked and defaulted once per version.

A job that is edited into something invalid goes on as it last was valid, and says so; one that never was valid is
refused. Neither concerns any other job.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from edl.api.kubernetes import timestamp
from edl.api.schema.problem import Problem, errors
from edl.jobs.core.kind import JobKind
from edl.jobs.in_force import check_job
from edl.jobs.registry import JOB_KIND_BY_CRD
from edl.kube.cache.informer import Informer
from edl.operator.reconcile.checked_object import status_of, whole
from edl.operator.reconcile.job_key import JobKey
from edl.operator.resources import RawJob


class Entry(msgspec.Struct, frozen=True):
    """`job` is what to work with, None if the spec is refused. `status` is what the object carries."""

    kind: JobKind
    raw: RawJob
    job: Any
    problems: tuple[Problem, ...]

    @property
    def key(self) -> JobKey:
        return JobKey(self.kind.crd_name, self.raw.metadata.namespace, self.raw.metadata.name)

    @property
    def uid(self) -> str:
        return self.raw.metadata.uid

    @property
    def created(self) -> float:
        made = self.raw.metadata.creation_timestamp
        return timestamp.seconds(made) if made else 0.0

    @property
    def refused(self) -> tuple[Problem, ...]:
        return tuple(errors(self.problems))

    @property
    def warnings(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity == "warning")

    @property
    def status(self) -> Any:
        return self.job.status if self.job is not None else status_of(self.kind.status, self.raw)


class JobCache:
    """`jobs` are the caches that it reads, by the names of their kinds."""

    def __init__(self, jobs: Mapping[str, Informer[RawJob]]) -> None:
        self._jobs = jobs
        self._entries: dict[JobKey, Entry] = {}

    def entry(self, key: JobKey) -> Entry | None:
        raw = self._jobs[key.kind].get((key.namespace, key.name))
        if raw is None:
            self._entries.pop(key, None)
            return None
        known = self._entries.get(key)
        if known is None or known.raw is not raw:
            known = self._entries[key] = _read(JOB_KIND_BY_CRD[key.kind], raw, known)
        return known

    def entries(self) -> Iterator[Entry]:
        for kind, jobs in self._jobs.items():
            for raw in jobs.all():
                entry = self.entry(JobKey(kind, raw.metadata.namespace, raw.metadata.name))
                if entry is not None:
                    yield entry

    def named(self, namespace: str, name: str) -> list[Entry]:
        """The jobs of this name: one at most of each kind."""
        found = (self.entry(JobKey(kind, namespace, name)) for kind in self._jobs)
        return [entry for entry in found if entry is not None]


def _read(kind: JobKind, raw: RawJob, known: Entry | None) -> Entry:
    checked = check_job(whole(raw))
    if isinstance(checked.object, kind.type):
        return Entry(kind, raw, checked.object, checked.problems)
    if known is not None and known.job is not None and known.uid == raw.metadata.uid:
        last = replace(known.job, metadata=raw.metadata, status=status_of(kind.status, raw))
        return Entry(kind, raw, last, checked.problems)
    return Entry(kind, raw, None, checked.problems)
