"""The jobs of a cluster as commands see them: found by name whatever their kind, with one summary for all kinds."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from edl.api.kinds import EASYDL_JOB, PYTORCH_JOB, TRAINING_JOB, Kind

from .main import CommandError

if TYPE_CHECKING:
    from edl.kube.client import Client
    from edl.kube.resource import Resource

JOB_KINDS = (TRAINING_JOB, PYTORCH_JOB, EASYDL_JOB)
FINISHED = ("succeeded", "failed")


class Summary(msgspec.Struct, frozen=True):
    """What one line about a job says. Numbers are None while nobody has said them."""

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
    def finished(self) -> bool:
        return self.phase.lower() in FINISHED

    @property
    def status(self) -> Mapping[str, Any]:
        status: Mapping[str, Any] = self.raw.get("status") or {}
        return status

    @property
    def scale(self) -> Mapping[str, Any]:
        """The scheduling facts; TrainingJob spells them in its own way."""
        scale: Mapping[str, Any] = self.status.get("scale_status") or self.status.get("scale") or {}
        return scale


def resource_of(kind: Kind) -> "Resource":
    from edl.kube.resource import Resource

    return Resource(kind.group, kind.versions[0], kind.plural, kind.name)


def summarize(kind: Kind, job: Mapping[str, Any]) -> Summary:
    columns = {column.name: _at(job, column.path) for column in kind.columns}
    metadata = job["metadata"]
    least = columns.get("Min")
    return Summary(
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


async def all_jobs(client: "Client", namespace: str | None) -> list[Summary]:
    """Every job of every kind, by namespace, name and kind. A kind whose CRD is not installed has none."""
    listed = await asyncio.gather(*(_list(client, kind, namespace) for kind in JOB_KINDS))
    return sorted((job for jobs in listed for job in jobs), key=lambda job: (job.namespace, job.name, job.kind.group))


async def _list(client: "Client", kind: Kind, namespace: str | None) -> list[Summary]:
    from edl.kube.errors import ApiError

    try:
        page = await client.list(resource_of(kind), namespace=namespace)
    except ApiError as error:
        if error.is_not_found:
            return []
        raise
    return [summarize(kind, job) for job in page.items]


async def find_job(client: "Client", namespace: str, wanted: str) -> Summary:
    """The job called NAME, or KIND/NAME where two kinds have one of that name."""
    prefix, _, name = wanted.rpartition("/")
    kinds = [kind for kind in JOB_KINDS if not prefix or _named(kind, prefix)]
    if not kinds:
        raise CommandError(f"{prefix!r} is no kind of job; there are: {', '.join(map(_words, JOB_KINDS))}")
    found = [job for job in await asyncio.gather(*(_get(client, kind, namespace, name) for kind in kinds)) if job]
    if not found:
        raise CommandError(f"there is no job {wanted} in namespace {namespace}; `edl get -A` lists all")
    if len(found) > 1:
        names = " or ".join(f"{job.kind.short_names[0]}/{name}" for job in found)
        raise CommandError(f"several kinds have a job {name}; say which: {names}")
    return found[0]


def _words(kind: Kind) -> str:
    return f"{kind.short_names[0]} ({kind.name} of {kind.group})"


def _named(kind: Kind, prefix: str) -> bool:
    return prefix.lower() in (kind.singular, kind.plural, kind.crd_name, *kind.short_names)


async def _get(client: "Client", kind: Kind, namespace: str, name: str) -> Summary | None:
    from edl.kube.errors import ApiError

    try:
        return summarize(kind, await client.get(resource_of(kind), name, namespace=namespace))
    except ApiError as error:
        if error.is_not_found:
            return None
        raise
