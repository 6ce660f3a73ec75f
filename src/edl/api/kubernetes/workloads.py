"""Kubernetes' own workload kinds, as far as we count and own them. Pod templates stay plain data, to be passed on."""

from collections.abc import Mapping
from typing import Any, ClassVar

from edl.api.kubernetes.meta import EMPTY, Condition, LabelSelector, ObjectMeta, Wire


class ReplicaSetSpec(Wire, frozen=True):
    replicas: int = 1
    selector: LabelSelector = LabelSelector()
    template: Mapping[str, Any] = EMPTY


class ReplicaSetStatus(Wire, frozen=True):
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class ReplicaSet(Wire, frozen=True):
    API_VERSION: ClassVar = "apps/v1"
    KIND: ClassVar = "ReplicaSet"

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class StatefulSetSpec(Wire, frozen=True):
    replicas: int = 1
    service_name: str = ""
    selector: LabelSelector = LabelSelector()
    template: Mapping[str, Any] = EMPTY


class StatefulSetStatus(Wire, frozen=True):
    replicas: int = 0
    ready_replicas: int = 0
    observed_generation: int = 0


class StatefulSet(Wire, frozen=True):
    API_VERSION: ClassVar = "apps/v1"
    KIND: ClassVar = "StatefulSet"

    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class JobSpec(Wire, frozen=True):
    parallelism: int = 1
    completions: int | None = None
    managed_by: str = ""
    suspend: bool = False
    selector: LabelSelector | None = None
    template: Mapping[str, Any] = EMPTY


class JobStatus(Wire, frozen=True):
    active: int = 0
    ready: int = 0
    terminating: int = 0
    succeeded: int = 0
    failed: int = 0
    start_time: str | None = None
    completion_time: str | None = None
    conditions: tuple[Condition, ...] = ()


class Job(Wire, frozen=True):
    API_VERSION: ClassVar = "batch/v1"
    KIND: ClassVar = "Job"

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()
