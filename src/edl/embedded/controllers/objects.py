"""What the controllers read of Kubernetes' objects, and where these live. Templates stay whole: they are passed on."""

from collections.abc import Mapping
from typing import Any

import msgspec

from edl.api import core
from edl.api.core import ContainerStatus, LabelSelector
from edl.api.meta import EMPTY, Condition, ObjectMeta, Wire
from edl.kube.resource import Resource

PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
SERVICES = Resource("", "v1", "services", "Service")
SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
JOBS = Resource("batch", "v1", "jobs", "Job")


class Port(Wire, frozen=True):
    name: str = ""
    container_port: int = 0
    protocol: str = "TCP"


class Container(Wire, frozen=True):
    name: str = ""
    ports: tuple[Port, ...] = ()
    restart_policy: str = ""


class Toleration(core.Toleration, frozen=True):
    toleration_seconds: int | None = None


class PodSpec(Wire, frozen=True):
    node_name: str = ""
    hostname: str = ""
    subdomain: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    restart_policy: str = ""


class PodStatus(Wire, frozen=True):
    phase: str = ""
    reason: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()

    def condition(self, kind: str) -> Condition | None:
        return next((condition for condition in self.conditions if condition.type == kind), None)


class Pod(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def finished(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def terminating(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def active(self) -> bool:
        return not self.finished and not self.terminating

    @property
    def ready_condition(self) -> Condition | None:
        ready = self.status.condition("Ready")
        return ready if ready is not None and ready.status == "True" else None

    @property
    def ready(self) -> bool:
        return self.ready_condition is not None

    @property
    def restarts(self) -> int:
        statuses = (*self.status.container_statuses, *self.status.init_container_statuses)
        return sum(status.restart_count for status in statuses)


class ReplicaSetSpec(Wire, frozen=True):
    replicas: int = 1
    min_ready_seconds: int = 0
    selector: LabelSelector = LabelSelector()
    template: Mapping[str, Any] = EMPTY


class ReplicaSetStatus(Wire, frozen=True):
    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class ReplicaSet(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class RollingUpdate(Wire, frozen=True):
    max_surge: int | str = "25%"
    max_unavailable: int | str = "25%"
    partition: int = 0


class Strategy(Wire, frozen=True):
    type: str = "RollingUpdate"
    rolling_update: RollingUpdate = RollingUpdate()


class DeploymentSpec(Wire, frozen=True):
    replicas: int = 1
    paused: bool = False
    min_ready_seconds: int = 0
    progress_deadline_seconds: int = 600
    revision_history_limit: int = 10
    selector: LabelSelector = LabelSelector()
    strategy: Strategy = Strategy()
    template: Mapping[str, Any] = EMPTY


class DeploymentStatus(Wire, frozen=True):
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    conditions: tuple[Mapping[str, Any], ...] = ()


class Deployment(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class StatefulSetSpec(Wire, frozen=True):
    replicas: int = 1
    service_name: str = ""
    pod_management_policy: str = "OrderedReady"
    min_ready_seconds: int = 0
    selector: LabelSelector = LabelSelector()
    update_strategy: Strategy = Strategy()
    template: Mapping[str, Any] = EMPTY


class StatefulSetStatus(Wire, frozen=True):
    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""


class StatefulSet(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class JobSpec(Wire, frozen=True):
    parallelism: int = 1
    completions: int | None = None
    completion_mode: str = "NonIndexed"
    backoff_limit: int = 6
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    suspend: bool = False
    managed_by: str = ""
    selector: LabelSelector = LabelSelector()
    template: Mapping[str, Any] = EMPTY


class Uncounted(Wire, frozen=True):
    """Finished pods that are on their way into the counters."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobStatus(Wire, frozen=True):
    active: int = 0
    ready: int = 0
    terminating: int = 0
    succeeded: int = 0
    failed: int = 0
    completed_indexes: str = ""
    failed_indexes: str = ""
    start_time: str | None = None
    completion_time: str | None = None
    conditions: tuple[Mapping[str, Any], ...] = ()
    uncounted_terminated_pods: Uncounted = Uncounted()


class Job(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    def condition(self, kind: str) -> Mapping[str, Any] | None:
        """The condition, if it holds."""
        found = next((one for one in self.status.conditions if one["type"] == kind), None)
        return found if found is not None and found["status"] == "True" else None
