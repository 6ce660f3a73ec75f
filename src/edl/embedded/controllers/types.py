"""Kubernetes' objects as the controllers read them: the shared types of `edl.api.kubernetes`, and what the controllers
need beyond them. Pod templates stay plain data, to be passed on.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from edl.api.kubernetes import cluster, workloads
from edl.api.kubernetes.core import LabelSelector
from edl.api.kubernetes.meta import EMPTY, Condition, ObjectMeta, Wire


class Taint(cluster.Taint, frozen=True):
    time_added: str | None = None


class NodeSpec(cluster.NodeSpec, frozen=True):
    taints: tuple[Taint, ...] = ()


class Node(cluster.Node, frozen=True):
    spec: NodeSpec = NodeSpec()

    @property
    def ready_status(self) -> str:
        """True, False or Unknown."""
        found = next((one for one in self.status.conditions if one.type == "Ready"), None)
        return found.status if found is not None else "Unknown"


class ReplicaSetSpec(workloads.ReplicaSetSpec, frozen=True):
    min_ready_seconds: int = 0


class ReplicaSetStatus(workloads.ReplicaSetStatus, frozen=True):
    fully_labeled_replicas: int = 0
    conditions: tuple[Condition, ...] = ()


class ReplicaSet(workloads.ReplicaSet, frozen=True):
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
    API_VERSION: ClassVar = "apps/v1"
    KIND: ClassVar = "Deployment"

    metadata: ObjectMeta = ObjectMeta()
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class StatefulSetSpec(workloads.StatefulSetSpec, frozen=True):
    pod_management_policy: str = "OrderedReady"
    min_ready_seconds: int = 0
    update_strategy: Strategy = Strategy()


class StatefulSetStatus(workloads.StatefulSetStatus, frozen=True):
    available_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""


class StatefulSet(workloads.StatefulSet, frozen=True):
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class JobSpec(workloads.JobSpec, frozen=True):
    completion_mode: str = "NonIndexed"
    backoff_limit: int = 6
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None


class Uncounted(Wire, frozen=True):
    """Finished pods that are on their way into the counters."""

    succeeded: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class JobStatus(workloads.JobStatus, frozen=True):
    completed_indexes: str = ""
    failed_indexes: str = ""
    conditions: tuple[Mapping[str, Any], ...] = ()  # type: ignore[assignment]  # plain data: written back whole
    uncounted_terminated_pods: Uncounted = Uncounted()


class Job(workloads.Job, frozen=True):
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    def condition(self, kind: str) -> Mapping[str, Any] | None:
        """The condition, if it holds."""
        found = next((one for one in self.status.conditions if one["type"] == kind), None)
        return found if found is not None and found["status"] == "True" else None
