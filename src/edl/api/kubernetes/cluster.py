"""The objects around pods: nodes, what bounds a namespace, and how pods are found and configured."""

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from edl.api.kubernetes.meta import EMPTY, Condition, ObjectMeta, Wire
from edl.api.kubernetes.pod import ResourceList


class Taint(Wire, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Wire, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(Wire, frozen=True):
    capacity: ResourceList = EMPTY
    allocatable: ResourceList = EMPTY
    conditions: tuple[Condition, ...] = ()


class Node(Wire, frozen=True):
    API_VERSION: ClassVar = "v1"
    KIND: ClassVar = "Node"

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def ready(self) -> bool:
        return any(condition.type == "Ready" and condition.status == "True" for condition in self.status.conditions)


class ScopeRequirement(Wire, frozen=True):
    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class ScopeSelector(Wire, frozen=True):
    match_expressions: tuple[ScopeRequirement, ...] = ()


class ResourceQuotaSpec(Wire, frozen=True):
    hard: ResourceList = EMPTY
    scopes: tuple[str, ...] = ()
    scope_selector: ScopeSelector | None = None


class ResourceQuotaStatus(Wire, frozen=True):
    hard: ResourceList = EMPTY
    used: ResourceList = EMPTY


class ResourceQuota(Wire, frozen=True):
    API_VERSION: ClassVar = "v1"
    KIND: ClassVar = "ResourceQuota"

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus = ResourceQuotaStatus()


class LimitRangeItem(Wire, frozen=True):
    type: str = ""
    min: ResourceList = EMPTY
    max: ResourceList = EMPTY
    default: ResourceList = EMPTY
    default_request: ResourceList = EMPTY
    max_limit_request_ratio: ResourceList = EMPTY


class LimitRangeSpec(Wire, frozen=True):
    limits: tuple[LimitRangeItem, ...] | None = None


class LimitRange(Wire, frozen=True):
    API_VERSION: ClassVar = "v1"
    KIND: ClassVar = "LimitRange"

    metadata: ObjectMeta = ObjectMeta()
    spec: LimitRangeSpec = LimitRangeSpec()


class PriorityClass(Wire, frozen=True):
    API_VERSION: ClassVar = "scheduling.k8s.io/v1"
    KIND: ClassVar = "PriorityClass"

    metadata: ObjectMeta = ObjectMeta()
    value: int = 0
    global_default: bool = False
    preemption_policy: str = ""


class NamespaceStatus(Wire, frozen=True):
    phase: str = ""


class Namespace(Wire, frozen=True):
    API_VERSION: ClassVar = "v1"
    KIND: ClassVar = "Namespace"

    metadata: ObjectMeta = ObjectMeta()
    status: NamespaceStatus = NamespaceStatus()


class ServicePort(Wire, frozen=True):
    name: str = ""
    port: int = 0


class ServiceSpec(Wire, frozen=True):
    selector: Mapping[str, str] = EMPTY
    cluster_ip: str = msgspec.field(default="", name="clusterIP")
    type: str = ""
    ports: tuple[ServicePort, ...] = ()


class Service(Wire, frozen=True):
    API_VERSION: ClassVar = "v1"
    KIND: ClassVar = "Service"

    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()


class Secret(Wire, frozen=True):
    API_VERSION: ClassVar = "v1"
    KIND: ClassVar = "Secret"

    metadata: ObjectMeta = ObjectMeta()
    type: str = ""
    data: Mapping[str, str] = EMPTY
    """Values are base64, as on the wire."""


class ConfigMap(Wire, frozen=True):
    API_VERSION: ClassVar = "v1"
    KIND: ClassVar = "ConfigMap"

    metadata: ObjectMeta = ObjectMeta()
    data: Mapping[str, str] = EMPTY
    binary_data: Mapping[str, str] = EMPTY
    """Values are base64, as on the wire."""


class Endpoint(Wire, frozen=True):
    addresses: tuple[str, ...] = ()


class EndpointPort(Wire, frozen=True):
    name: str | None = None
    port: int | None = None


class EndpointSlice(Wire, frozen=True):
    API_VERSION: ClassVar = "discovery.k8s.io/v1"
    KIND: ClassVar = "EndpointSlice"

    metadata: ObjectMeta = ObjectMeta()
    address_type: str = ""
    endpoints: tuple[Endpoint, ...] | None = None
    ports: tuple[EndpointPort, ...] | None = None
