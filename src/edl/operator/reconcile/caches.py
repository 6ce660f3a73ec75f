"""The informers of the operator and lookups in them. A lookup never scans: all is found by an index."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from edl.api.kubernetes import timestamp
from edl.api.kubernetes.core import (
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
from edl.api.labels import LABEL_JOB, LABEL_KIND, LABEL_UID
from edl.jobs.core.children import ObservedChild
from edl.jobs.core.kind import Kind
from edl.jobs.core.outcome import ObjectKey
from edl.jobs.registry import JOB_KINDS
from edl.kube.cache.indexes import by_label
from edl.kube.cache.informer import Informer
from edl.kube.cache.objects import Key, Object
from edl.kube.rest.client import Client, Scope
from edl.kube.rest.resource import Resource
from edl.operator.reconcile.companion_cache import BY_JOB, index_by_job
from edl.operator.reconcile.job_key import JobKey
from edl.operator.reconcile.namespaced_informer import NamespacedInformer
from edl.operator.resources import (
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
    resource_of,
)

_OURS = Scope(labels=LABEL_JOB)  # objects that carry the label, whatever its value
_JOB = "job"
_UID = "uid"
BATCH_WINDOW = 0.1  # seconds within which pods of a job that start are reconciled together


def job_keys(kind: str) -> Callable[[Object | None, Object | None], set[Key]]:
    """Finds the job of this kind that a changed child names, also if the child belongs to an earlier one."""

    def keys(old: Object | None, new: Object | None) -> set[Key]:
        items = [item for item in (old, new) if item is not None and item.metadata.labels.get(LABEL_KIND) == kind]
        return {
            (item.metadata.namespace, item.metadata.labels[LABEL_JOB])
            for item in items
            if LABEL_JOB in item.metadata.labels
        }

    return keys


def job_keys_of_pod(kind: str) -> Callable[[Pod | None, Pod | None], set[Key]]:
    """As `job_keys`, but without changes that only bind a pod: one that it runs soon follows."""
    of_any = job_keys(kind)

    def keys(old: Pod | None, new: Pod | None) -> set[Key]:
        named = of_any(old, new)
        return set() if named and old is not None and new is not None and _only_bound(old, new) else named

    return keys


def batching_delay(old: Pod | None, new: Pod | None) -> float:
    """How long a change of a pod may wait for changes of others: pods of a job start together. Failures do not wait."""
    if new is None or new.metadata.deletion_timestamp is not None:
        return 0.0
    states = (status.state for status in new.status.container_statuses)
    fine = new.status.phase == "Running" and all(state.running is not None for state in states)
    return BATCH_WINDOW if fine and old is not None else 0.0


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
    """Children of ours are asked for by their label; pods and what bounds them are asked for all.

    `namespaces`: where jobs are looked after; none: everywhere.
    """

    def __init__(self, client: Client, namespaces: Collection[str] = ()) -> None:
        def jobs(kind: Kind, **options: Any) -> Informer[RawJob]:
            if namespaces:
                return NamespacedInformer(client, resource_of(kind), namespaces, **options)
            return Informer(client, resource_of(kind), RawJob, **options)

        def ours(resource: Resource, kind: type[Any]) -> Informer[Any]:
            return Informer(client, resource, kind, scope=_OURS, indexes={_JOB: by_label(LABEL_JOB)})

        self.jobs: Mapping[str, Informer[RawJob]] = {kind.crd_name: jobs(kind) for kind in JOB_KINDS}
        self.companions: Mapping[str, Informer[RawJob]] = {
            one.kind.crd_name: jobs(one.kind, indexes={BY_JOB: index_by_job(one)})
            for one in (kind.companion for kind in JOB_KINDS)
            if one is not None
        }
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
        return (*self.jobs.values(), *self.companions.values(), self.pods, *self.children, self.nodes, *self.bounds)

    def pods_of(self, key: JobKey, uid: str) -> list[Pod]:
        """The pods that the job owns: by the uid of their controller, which is the job or a workload of the job's. A
        label alone is anybody's to write, and so is a reference to an owner in another namespace."""
        owners = {uid, *self._workloads_of(key, uid)}
        found = self.labelled_pods(key, uid)
        return [pod for pod in found if (controller := pod.metadata.controller) and controller.uid in owners]

    def quotas_of(self, namespace: str) -> list[ResourceQuota]:
        return [quota for quota in self.quotas.all() if quota.metadata.namespace == namespace]

    def labelled_pods(self, key: JobKey, uid: str) -> list[Pod]:
        """Pods of the job's namespace that bear its uid, whoever made them: the kind tells its own from the others."""
        return [pod for pod in self.pods.by(_UID, uid) if pod.metadata.namespace == key.namespace]

    def _workloads_of(self, key: JobKey, uid: str) -> Iterator[str]:
        for item in self.objects_of(key).values():
            controller = item.metadata.controller
            if controller is not None and controller.uid == uid:
                yield item.metadata.uid

    def outlived(self, when: float) -> bool:
        """Whether no job, and no pod of any, is left that was made before this time: a job keeps the token that it
        began with. Not known before all of them are."""
        made = [pod.metadata.creation_timestamp for pod in self.pods.all() if LABEL_UID in pod.metadata.labels]
        made += [job.metadata.creation_timestamp for jobs in self.jobs.values() for job in jobs.all()]
        synced = self.pods.synced and all(jobs.synced for jobs in self.jobs.values())
        return synced and not any(timestamp.seconds(one) < when for one in made if one)

    def objects_of(self, key: JobKey) -> dict[ObjectKey, ObservedChild]:
        """By kind and name: everything that bears the job's labels, also what an earlier job of the name left."""
        return {
            (informer.resource.kind, item.metadata.name): item
            for informer in self.children
            for item in informer.by(_JOB, key.name)
            if item.metadata.namespace == key.namespace and item.metadata.labels.get(LABEL_KIND) == key.kind
        }

    async def wait_seen(self, versions: Mapping[Resource, int]) -> None:
        """Until our own writes are in the caches: the next reconcile must not see the past."""
        for resource, version in versions.items():
            informer = self._by_resource.get(resource)
            if informer is not None:
                await informer.wait_seen(str(version))
