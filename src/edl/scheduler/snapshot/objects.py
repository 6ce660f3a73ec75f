"""The typed Kubernetes objects that a snapshot is built from: out of the operator's caches, or plain data of a file.

Plain data is whatever `kubectl get ... -o json` prints. Unknown kinds are ignored, an object of a known kind that
cannot be read is reported and left out, and a job that does not validate is reported under its name and left alone.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from edl.api.kubernetes.core import (
    Job,
    LimitRange,
    Namespace,
    Node,
    Pod,
    PriorityClass,
    ReplicaSet,
    ResourceQuota,
    StatefulSet,
    Wire,
    convert,
)
from edl.api.labels import LABEL_UID
from edl.api.schema.problem import errors
from edl.jobs import registry as kinds
from edl.jobs.core.objects import EdlObject
from edl.jobs.in_force import check_job
from edl.scheduler.snapshot.models import Measured
from edl.throughput.measurements import Measurements

_NATIVE: dict[tuple[str, str], type[Wire]] = {
    (kind.API_VERSION, kind.KIND): kind
    for kind in (Job, LimitRange, Namespace, Node, Pod, PriorityClass, ReplicaSet, ResourceQuota, StatefulSet)
}
MEASURED_FILE = "throughput.json"
"""The entry of a job's ConfigMap that holds what it has measured of itself."""
_CLUSTER_WIDE = (Namespace, Node, PriorityClass)
_DEEPEST = 8  # lists within lists


class JobStateMap(msgspec.Struct, frozen=True):
    """A ConfigMap in which the job service keeps the state of a job, as far as a plan may know it."""

    uid: str
    measured: Measurements


class Invalid(msgspec.Struct, frozen=True):
    """A job that does not validate: its identity, and what is wrong."""

    kind: str
    api_version: str
    namespace: str
    name: str
    uid: str
    problem: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.namespace, self.name, self.kind, self.api_version


class Objects(msgspec.Struct, frozen=True):
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    jobs: tuple[EdlObject, ...] = ()
    """What is in force of them, as `edl.jobs.in_force.check_job` gives it."""
    resources: tuple[EdlObject, ...] = ()
    """Companions of jobs."""
    invalid: tuple[Invalid, ...] = ()
    children: tuple[Job | ReplicaSet | StatefulSet, ...] = ()
    quotas: tuple[ResourceQuota, ...] = ()
    limit_ranges: tuple[LimitRange, ...] = ()
    priority_classes: tuple[PriorityClass, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    measured: Mapping[str, Measured] = {}
    """What jobs have measured of their throughput, by uid."""
    problems: tuple[str, ...] = ()
    complete: bool = False
    """All workloads of our jobs are among the children. A file may leave some out."""


def from_plain(values: Iterable[Any]) -> Objects:
    """Never raises, whatever the values. Of an object that is listed twice the last one counts."""
    found: dict[tuple[str, str, str, str], Any] = {}
    problems: list[str] = []
    for value in _flat(values, _DEEPEST):
        key = _identity(value)
        thing = _typed(value, key)
        if isinstance(thing, str):
            problems.append(thing)
        elif thing is not None:
            found[key] = thing
    things = list(found.values())

    def of(*types: type) -> tuple[Any, ...]:
        return tuple(thing for thing in things if isinstance(thing, types))

    return Objects(
        nodes=of(Node),
        pods=of(Pod),
        jobs=of(*(kind.type for kind in kinds.JOB_KINDS)),
        resources=of(*(kind.type for kind in kinds.COMPANION_KINDS)),
        invalid=of(Invalid),
        children=of(Job, ReplicaSet, StatefulSet),
        quotas=of(ResourceQuota),
        limit_ranges=of(LimitRange),
        priority_classes=of(PriorityClass),
        namespaces=of(Namespace),
        measured={one.uid: (0, one.measured) for one in of(JobStateMap)},
        problems=tuple(problems),
    )


def _flat(values: Iterable[Any], depth: int) -> Iterator[dict[str, Any]]:
    """Objects, whether bare, in sequences or in lists of Kubernetes' making."""
    for value in values:
        if isinstance(value, dict):
            items = value.get("items")
            if isinstance(items, list) and str(value.get("kind", "")).endswith("List"):
                yield from _flat((_with_kind(item, value) for item in items), depth - 1) if depth else ()
            else:
                yield value
        elif isinstance(value, list) and depth:
            yield from _flat(value, depth - 1)


def _with_kind(item: Any, listing: Mapping[str, Any]) -> Any:
    """Items of a typed list (`kind: PodList`) need not repeat their kind."""
    if not isinstance(item, dict) or "kind" in item or listing.get("kind") == "List":
        return item
    kind = str(listing["kind"]).removesuffix("List")
    return {"apiVersion": listing.get("apiVersion"), "kind": kind, **item}


def _identity(value: Mapping[str, Any]) -> tuple[str, str, str, str]:
    metadata = value.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    group = str(value.get("apiVersion")).rpartition("/")[0]
    return group, str(value.get("kind")), str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def _typed(
    value: dict[str, Any], key: tuple[str, str, str, str]
) -> Wire | EdlObject | Invalid | JobStateMap | str | None:
    which = value.get("apiVersion"), value.get("kind")
    try:
        if which in kinds.BY_API_VERSION:
            return _job(value)
        if which == ("v1", "ConfigMap"):
            return _job_state(value)
        if which in _NATIVE:
            kind = _NATIVE[which]
            return convert(value if kind in _CLUSTER_WIDE else _in_a_namespace(value), kind)
    except (msgspec.ValidationError, RecursionError, TypeError) as error:
        return f"{which[1]} {key[2]}/{key[3]} cannot be read: {str(error)[:200] or type(error).__name__}"
    return None


def _job_state(value: dict[str, Any]) -> JobStateMap | None:
    """None if it is another ConfigMap."""
    metadata, data = value.get("metadata"), value.get("data")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    uid = labels.get(LABEL_UID) if isinstance(labels, dict) else None
    text = data.get(MEASURED_FILE) if isinstance(data, dict) else None
    if not isinstance(uid, str) or not isinstance(text, str):
        return None
    try:
        return JobStateMap(uid, msgspec.json.decode(text, type=Measurements))
    except msgspec.DecodeError as error:
        raise msgspec.ValidationError(str(error)) from error


def _job(value: dict[str, Any]) -> EdlObject | Invalid:
    checked = check_job(_in_a_namespace(value))
    if checked.object is not None:
        return checked.object
    metadata = value.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    wrong = [str(problem) for problem in errors(checked.problems)]
    return Invalid(
        kind=str(value["kind"]),
        api_version=str(value["apiVersion"]),
        namespace=str(metadata.get("namespace") or "default"),
        name=str(metadata.get("name") or ""),
        uid=str(metadata.get("uid") or ""),
        problem=wrong[0] + (f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""),
    )


def _in_a_namespace(value: dict[str, Any]) -> dict[str, Any]:
    """As kubectl would: what names no namespace is in `default`."""
    metadata = value.get("metadata")
    if not isinstance(metadata, dict) or metadata.get("namespace"):
        return value
    return {**value, "metadata": {**metadata, "namespace": "default"}}
