"""Finds jobs of any kind by name, and summarizes them in one form."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from edl.cli.errors import CommandError
from edl.jobs.core.kind import Kind
from edl.jobs.registry import JOB_KINDS

if TYPE_CHECKING:
    from edl.kube.rest.client import Client
    from edl.kube.rest.resource import Resource

FINISHED = ("succeeded", "failed")


class JobSummary(msgspec.Struct, frozen=True):
    """A job as one line of a table. Numbers are None until they are known."""

    kind: Kind
    namespace: str
    name: str
    uid: str
    phase: str
    now: int | None
    target: int | None
    least: int | None
    most: int | None
    reason: str
    created: str
    raw: Mapping[str, Any]

    @property
    def label(self) -> str:
        return f"{self.kind.singular}/{self.name}"

    @property
    def stage(self) -> str:
        """The phase as it is printed: kinds spell theirs with capitals or without."""
        return self.phase.lower()

    @property
    def where(self) -> str:
        """What a command that names the job needs beside its name."""
        return f" -n {self.namespace}" if self.namespace not in ("", "default") else ""

    @property
    def finished(self) -> bool:
        return self.stage in FINISHED

    @property
    def status(self) -> Mapping[str, Any]:
        status: Mapping[str, Any] = self.raw.get("status") or {}
        return status

    @property
    def scale(self) -> Mapping[str, Any]:
        """What the scheduler wrote into status; TrainingJob has another name for it."""
        scale: Mapping[str, Any] = self.status.get("scale_status") or self.status.get("scale") or {}
        return scale


def resource_of(kind: Kind) -> "Resource":
    from edl.kube.rest.resource import Resource

    return Resource(kind.group, kind.versions[0], kind.plural, kind.name)


def summarize(kind: Kind, job: Mapping[str, Any]) -> JobSummary:
    columns = {column.name: _at(job, column.path) for column in kind.columns}
    metadata = job["metadata"]
    least = columns.get("Min")
    return JobSummary(
        kind=kind,
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        phase=columns.get("Phase") or "",
        now=columns.get("Now"),
        target=columns.get("Target"),
        least=least,
        most=columns.get("Max") or least,
        reason=columns.get("Reason") or _at(job, ".status.reason") or "",
        created=metadata.get("creationTimestamp", ""),
        raw=job,
    )


def _at(value: Any, path: str) -> Any:
    for step in path.strip(".").split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


async def all_jobs(client: "Client", namespace: str | None, labels: str | None = None) -> list[JobSummary]:
    """Every job of every kind, by namespace, name and kind. A kind whose CRD is not installed has none."""
    import asyncio

    listed = await asyncio.gather(*(_list(client, kind, namespace, labels) for kind in JOB_KINDS))
    return sorted((job for jobs in listed for job in jobs), key=lambda job: (job.namespace, job.name, job.kind.group))


async def _list(client: "Client", kind: Kind, namespace: str | None, labels: str | None) -> list[JobSummary]:
    from edl.kube.rest.errors import ApiError

    try:
        page = await client.list(resource_of(kind), namespace=namespace, labels=labels)
    except ApiError as error:
        if error.is_not_found:
            return []
        raise
    return [summarize(kind, job) for job in page.items]


async def find_job(client: "Client", namespace: str, wanted: str) -> JobSummary:
    """The job called NAME, or KIND/NAME where two kinds have one of that name."""
    import asyncio

    prefix, _, name = wanted.rpartition("/")
    kinds = [kind for kind in JOB_KINDS if not prefix or _named(kind, prefix)]
    if not kinds:
        raise CommandError(f"{prefix!r} is no kind of job; there are: {', '.join(map(_described, JOB_KINDS))}")
    found = [job for job in await asyncio.gather(*(look_up(client, kind, namespace, name) for kind in kinds)) if job]
    if not found:
        raise CommandError(f"there is no job {wanted} in namespace {namespace}; `edl get -A` lists all")
    if len(found) > 1:
        names = " or ".join(f"{job.kind.short_names[0]}/{name}" for job in found)
        raise CommandError(f"several kinds have a job {name}; say which: {names}")
    return found[0]


def _described(kind: Kind) -> str:
    return f"{kind.short_names[0]} ({kind.name} of {kind.group})"


def _named(kind: Kind, prefix: str) -> bool:
    return prefix.lower() in (kind.singular, kind.plural, kind.crd_name, *kind.short_names)


async def look_up(client: "Client", kind: Kind, namespace: str, name: str) -> JobSummary | None:
    """None if there is none."""
    found = await client.find(resource_of(kind), name, namespace=namespace)
    return summarize(kind, found) if found is not None else None
