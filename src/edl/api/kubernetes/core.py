"""Every read-only Kubernetes type by name, and decoding that forgives `null`.

Kubernetes takes `null` for "absent"; people write `labels:` with nothing behind it. The types say what is wanted when
present, so a `null` fails the quick decoder; only then is the object decoded again without its nulls.
"""

from typing import Any, TypeVar

import msgspec

from edl.api.kubernetes.cluster import (
    ConfigMap,
    Endpoint,
    EndpointPort,
    EndpointSlice,
    LimitRange,
    LimitRangeItem,
    Namespace,
    Node,
    NodeSpec,
    NodeStatus,
    PriorityClass,
    ResourceQuota,
    ResourceQuotaSpec,
    ResourceQuotaStatus,
    ScopeRequirement,
    Secret,
    Service,
    ServiceSpec,
    Taint,
)
from edl.api.kubernetes.meta import EMPTY, Condition, LabelRequirement, LabelSelector, ObjectMeta, OwnerReference, Wire
from edl.api.kubernetes.pod import (
    Affinity,
    Container,
    ContainerState,
    ContainerStatus,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PodStatus,
    PodTemplate,
    ResourceList,
    ResourceRequirements,
    Terminated,
    Toleration,
)
from edl.api.kubernetes.workloads import (
    Job,
    JobSpec,
    JobStatus,
    ReplicaSet,
    ReplicaSetSpec,
    ReplicaSetStatus,
    StatefulSet,
)

__all__ = [
    "EMPTY",
    "KINDS",
    "Affinity",
    "Condition",
    "ConfigMap",
    "Container",
    "ContainerState",
    "ContainerStatus",
    "Endpoint",
    "EndpointPort",
    "EndpointSlice",
    "Job",
    "JobSpec",
    "JobStatus",
    "LabelRequirement",
    "LabelSelector",
    "LimitRange",
    "LimitRangeItem",
    "Namespace",
    "Node",
    "NodeAffinity",
    "NodeSelector",
    "NodeSelectorTerm",
    "NodeSpec",
    "NodeStatus",
    "ObjectMeta",
    "OwnerReference",
    "Pod",
    "PodAffinity",
    "PodAffinityTerm",
    "PodSpec",
    "PodStatus",
    "PodTemplate",
    "PriorityClass",
    "ReplicaSet",
    "ReplicaSetSpec",
    "ReplicaSetStatus",
    "ResourceList",
    "ResourceQuota",
    "ResourceQuotaSpec",
    "ResourceQuotaStatus",
    "ResourceRequirements",
    "ScopeRequirement",
    "Secret",
    "Service",
    "ServiceSpec",
    "StatefulSet",
    "Taint",
    "Terminated",
    "Toleration",
    "Wire",
    "convert",
    "from_json",
    "without_nulls",
]

KINDS: dict[tuple[str, str], type[Wire]] = {
    (kind.API_VERSION, kind.KIND): kind
    for kind in (
        Pod,
        Node,
        ResourceQuota,
        LimitRange,
        PriorityClass,
        Namespace,
        Service,
        Secret,
        ConfigMap,
        EndpointSlice,
        ReplicaSet,
        StatefulSet,
        Job,
    )
}

T = TypeVar("T")


def convert(value: Any, kind: type[T]) -> T:
    """Plain data (as YAML or JSON gives it) as a typed object; msgspec.ValidationError names the wrong field."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return msgspec.convert(without_nulls(value), kind)


def from_json(text: bytes | str, decoder: msgspec.json.Decoder[T]) -> T:
    """The same from JSON text. The decoder is an argument because making one costs more than using it."""
    try:
        return decoder.decode(text)
    except msgspec.ValidationError:
        return msgspec.convert(without_nulls(msgspec.json.decode(text)), decoder.type)  # type: ignore[arg-type, return-value, unused-ignore]  # Decoder.type is not generic in the stubs


def without_nulls(value: Any) -> Any:
    """The same data without the keys whose value is null."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [without_nulls(item) for item in value if item is not None]
    return value
