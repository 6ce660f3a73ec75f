"""Checks a job of any kind and finds what is in force of it: its spec, without the edits that are refused.

A spec that is edited into something invalid is refused as a whole, one that asks for what cannot change any more in
that part. What is in force then is what the job's status remembers.
"""

from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from edl.api.kubernetes.meta import ObjectMeta
from edl.jobs.admission import Checked, check, default
from edl.jobs.core.in_force import keep_unchanging, recalled, remembered
from edl.jobs.core.kind import JobKind
from edl.jobs.core.objects import EdlObject
from edl.jobs.decoding import find_kind
from edl.jobs.registry import kind_of


def check_job(value: dict[str, Any]) -> Checked:
    """As `check`, but `object` is what is in force: it may be there though some problems are errors."""
    checked = check(value)
    if checked.object is None:
        return Checked(_as_remembered(value), checked.problems)
    job, refused = in_force(checked.object)
    return Checked(job, (*checked.problems, *refused))


def in_force(job: Any) -> tuple[EdlObject, tuple[Any, ...]]:
    """A valid and defaulted job as far as it can be honoured, and what of its spec cannot be. Companions always can."""
    kind = kind_of(job)
    if not isinstance(kind, JobKind):
        return job, ()
    begun = recalled(job.status.in_force, type(job.spec))
    if begun is None or job.status.finished:
        return job, ()
    spec, problems = (kind.keep or keep_unchanging)(begun, job.spec)
    return (default(replace(job, spec=spec)), problems) if problems else (job, ())


class StartingSize(NamedTuple):
    """The size that a spec names to start with, and its minimum, which is that size where it names none."""

    start: int
    minimum: int


def starting_size_before(job: Any) -> StartingSize | None:
    """That of the spec which status remembers, if the present one names another: nobody who led has seen that edit.
    None of jobs whose sizes a companion states."""
    kind, known = kind_of(job), job.status.in_force
    if not isinstance(kind, JobKind) or kind.companion is not None or not known or known == remembered(job.spec):
        return None
    begun = recalled(known, type(job.spec))
    if begun is None:
        return None
    before = kind.view(default(replace(job, spec=begun)))
    return StartingSize(before.start, before.min) if before.start != kind.view(job).start else None


def _as_remembered(value: dict[str, Any]) -> EdlObject | None:
    kind = find_kind(value)
    if not isinstance(kind, JobKind):
        return None
    try:
        status = msgspec.convert(value.get("status") or {}, kind.status)
        metadata = msgspec.convert(value.get("metadata") or {}, ObjectMeta)
    except msgspec.ValidationError:
        return None
    spec = recalled(status.in_force, kind.spec)
    if spec is None:
        return None
    job: EdlObject = kind.type(
        api_version=value["apiVersion"], kind=kind.name, metadata=metadata, spec=spec, status=status
    )
    return default(job)
