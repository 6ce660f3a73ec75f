"""The jobs as the operator knows them: read, checked and defaulted once per version.

A job that is edited into something invalid goes on as it last was valid, and says so; one that never was valid is
refused. Neither concerns any other job.
"""

from collections.abc import Callable, Iterator

import msgspec
from msgspec.structs import replace

from edl.api.admission import check
from edl.api.problem import Problem, errors
from edl.api.training_job import TrainingJob, TrainingJobStatus
from edl.kube.objects import Key
from edl.operator.resources import RawJob


class Entry(msgspec.Struct, frozen=True):
    """`job` is what to work with, None if the spec is refused. `status` is what the object carries."""

    raw: RawJob
    job: TrainingJob | None
    problems: tuple[Problem, ...]

    @property
    def uid(self) -> str:
        return self.raw.metadata.uid

    @property
    def refused(self) -> tuple[Problem, ...]:
        return tuple(errors(self.problems))

    @property
    def warnings(self) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity == "warning")

    @property
    def status(self) -> TrainingJobStatus:
        return self.job.status if self.job is not None else status_of(self.raw)


class JobBook:
    """`get` and `all` are the cache of jobs that it reads."""

    def __init__(self, get: Callable[[Key], RawJob | None], all_: Callable[[], list[RawJob]]) -> None:
        self._get, self._all = get, all_
        self._entries: dict[Key, Entry] = {}

    def entry(self, key: Key) -> Entry | None:
        raw = self._get(key)
        if raw is None:
            self._entries.pop(key, None)
            return None
        known = self._entries.get(key)
        if known is None or known.raw is not raw:
            known = self._entries[key] = _read(raw, known)
        return known

    def entries(self) -> Iterator[Entry]:
        for raw in self._all():
            entry = self.entry((raw.metadata.namespace, raw.metadata.name))
            if entry is not None:
                yield entry


def _read(raw: RawJob, known: Entry | None) -> Entry:
    checked = check(plain(raw))
    if isinstance(checked.object, TrainingJob):
        return Entry(raw, checked.object, checked.problems)
    if known is not None and known.job is not None and known.uid == raw.metadata.uid:
        last = replace(known.job, metadata=raw.metadata, status=status_of(raw))
        return Entry(raw, last, checked.problems)
    return Entry(raw, None, checked.problems)


def plain(raw: RawJob) -> dict[str, object]:
    whole = {
        "apiVersion": raw.api_version,
        "kind": raw.kind,
        "metadata": msgspec.to_builtins(raw.metadata),
        "spec": raw.spec,
        "status": raw.status,
    }
    return {name: value for name, value in whole.items() if value is not None}


def status_of(raw: RawJob) -> TrainingJobStatus:
    """A status that a hand has spoilt is no status: everything in it is found out anew."""
    try:
        return msgspec.convert(raw.status or {}, TrainingJobStatus)
    except msgspec.ValidationError:
        return TrainingJobStatus()
