"""The informers of the operator, and what is looked up in them. Looking never scans: all is found by an index."""

from collections.abc import Callable, Mapping
from typing import Any

from edl.api.annotations import LABEL_JOB, LABEL_KIND
from edl.api.core import (
    Job,
    LimitRange,
    Namespace,
    Node,
    Pod,
    PriorityClass,
    ReplicaSet,
    ResourceQuota,
    Service,
    StatefulSet,
)
from edl.jobs.children import LABEL_UID, Seen
from edl.jobs.outcome import ObjectKey
from edl.kube.client import Client, Scope
from edl.kube.fields import by_label
from edl.kube.informer import Informer
from edl.kube.objects import Key, Object
from edl.kube.resource import Resource
from edl.operator.kinds import KINDS, JobKey
from edl.operator.plans import BY_JOB, by_job
from edl.operator.resources import (
    JOB_RESOURCES,
    JOBS,
    LIMIT_RANGES,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    QUOTAS,
    REPLICA_SETS,
    SERVICES,
    STATEFUL_SETS,
    RawJob,
)

_OURS = Scope(labels=LABEL_JOB)  # objects that carry the label, whatever its value
_JOB = "job"
_UID = "uid"
FLOCK = 0.1  # seconds within which pods of a job that start are looked at together


def job_of(kind: str) -> Callable[[Object | None, Object | None], set[Key]]:
    """Whom a change of a child concerns: the job of this kind that it names, also if it belongs to an earlier one."""

    def keys(old: Object | None, new: Object | None) -> set[Key]:
        items = [item for item in (old, new) if item is not None and item.metadata.labels.get(LABEL_KIND) == kind]
        return {
            (item.metadata.namespace, item.metadata.labels[LABEL_JOB])
            for item in items
            if LABEL_JOB in item.metadata.labels
        }

    return keys


def job_of_pod(kind: str) -> Callable[[Pod | None, Pod | None], set[Key]]:
    """As `job_of`, but that a pod was bound is no news by itself: it is soon followed by news that it runs."""
    of_any = job_of(kind)

    def keys(old: Pod | None, new: Pod | None) -> set[Key]:
        named = of_any(old, new)
        return set() if named and old is not None and new is not None and _only_bound(old, new) else named

    return keys


def patience(old: Pod | None, new: Pod | None) -> float:
    """How long news of a pod may wait for news of others: those of a job start in flocks. Bad news does not wait."""
    if new is None or new.metadata.deletion_timestamp is not None:
        return 0.0
    states = (status.state for status in new.status.container_statuses)
    fine = new.status.phase == "Running" and all(state.running is not None for state in states)
    return FLOCK if fine and old is not None else 0.0


def _only_bound(old: Pod, new: Pod) -> bool:
    scheduled = old.status.condition("PodScheduled")
    refused = scheduled is not None and scheduled.status == "False"  # then it is news: the job said that it waits
    return (
        bool(new.spec.node_name)
        and not old.spec.node_name
        and not refused
        and old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
        and old.status.phase == new.status.phase
        and old.status.container_statuses == new.status.container_statuses
    )


class Caches:
    """Children of ours are asked for by their label; pods and what bounds them are asked for all."""

    def __init__(self, client: Client) -> None:
        def ours(resource: Resource, kind: type[Any]) -> Informer[Any]:
            return Informer(client, resource, kind, scope=_OURS, indexes={_JOB: by_label(LABEL_JOB)})

        self.jobs: Mapping[str, Informer[RawJob]] = {
            kind.name: Informer(client, kind.resource, RawJob) for kind in KINDS
        }
        self.plans: Informer[RawJob] = Informer(client, JOB_RESOURCES, RawJob, indexes={BY_JOB: by_job})
        self.pods: Informer[Pod] = Informer(client, PODS, Pod, indexes={_UID: by_label(LABEL_UID)})
        self.batch_jobs: Informer[Job] = ours(JOBS, Job)
        self.replica_sets: Informer[ReplicaSet] = ours(REPLICA_SETS, ReplicaSet)
        self.stateful_sets: Informer[StatefulSet] = ours(STATEFUL_SETS, StatefulSet)
        self.services: Informer[Service] = ours(SERVICES, Service)
        self.nodes: Informer[Node] = Informer(client, NODES, Node)
        self.quotas: Informer[ResourceQuota] = Informer(client, QUOTAS, ResourceQuota)
        self.limit_ranges: Informer[LimitRange] = Informer(client, LIMIT_RANGES, LimitRange)
        self.priority_classes: Informer[PriorityClass] = Informer(client, PRIORITY_CLASSES, PriorityClass)
        self.namespaces: Informer[Namespace] = Informer(client, NAMESPACES, Namespace)
        self._by_resource: dict[Resource, Informer[Any]] = {one.resource: one for one in self.all}

    @property
    def children(self) -> tuple[Informer[Any], ...]:
        return (self.batch_jobs, self.replica_sets, self.stateful_sets, self.services)

    @property
    def bounds(self) -> tuple[Informer[Any], ...]:
        return (self.quotas, self.limit_ranges, self.priority_classes, self.namespaces)

    @property
    def all(self) -> tuple[Informer[Any], ...]:
        return (*self.jobs.values(), self.plans, self.pods, *self.children, self.nodes, *self.bounds)

    def pods_of(self, uid: str) -> list[Pod]:
        return self.pods.by(_UID, uid)

    def objects_of(self, key: JobKey) -> dict[ObjectKey, Seen]:
        """By kind and name: everything that bears the job's labels, also what an earlier job of the name left."""
        return {
            (informer.resource.kind, item.metadata.name): item
            for informer in self.children
            for item in informer.by(_JOB, key.name)
            if item.metadata.namespace == key.namespace and item.metadata.labels.get(LABEL_KIND) == key.kind
        }

    async def wait_seen(self, versions: Mapping[Resource, int]) -> None:
        """Until our own writes are in the caches: the next look must not be at the past."""
        for resource, version in versions.items():
            informer = self._by_resource.get(resource)
            if informer is not None:
                await informer.wait_seen(str(version))
