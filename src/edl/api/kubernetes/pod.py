"""Pods: what placing, counting and judging them needs, and no more. The same types read a pod and a pod template."""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
from msgspec.structs import force_setattr

from edl.api.kubernetes.meta import EMPTY, Condition, LabelRequirement, LabelSelector, ObjectMeta, Wire
from edl.api.schema.spec import QuantityValue

ResourceList = Mapping[str, QuantityValue]


_MAX_SHAPES = 1 << 14
_shapes: dict[tuple[object, ...], ResourceList] = {}


def shared(resources: ResourceList) -> ResourceList:
    """One mapping for all that are equal: a cluster has many pods and few shapes, and this is a quarter of a pod."""
    if not resources:
        return EMPTY
    if len(_shapes) >= _MAX_SHAPES:
        _shapes.clear()
    return _shapes.setdefault(tuple(resources.items()), resources)


_latest: list[ResourceList] = [EMPTY, EMPTY]  # pods of one shape come one after the other: most need no more than this


class ResourceRequirements(Wire, frozen=True):
    requests: ResourceList = EMPTY
    limits: ResourceList = EMPTY

    def __post_init__(self) -> None:
        requests, limits = _latest
        if self.requests != requests:
            requests = _latest[0] = shared(self.requests)
        if self.limits != limits:
            limits = _latest[1] = shared(self.limits)
        force_setattr(self, "requests", requests)
        force_setattr(self, "limits", limits)


class Container(Wire, frozen=True):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""
    """`Always` on an init container makes it a sidecar, whose requests add to those of the containers."""

    @property
    def sidecar(self) -> bool:
        """Meaningful for an init container: it stays while the others run."""
        return self.restart_policy == "Always"


class NodeSelectorTerm(Wire, frozen=True):
    match_expressions: tuple[LabelRequirement, ...] = ()
    match_fields: tuple[LabelRequirement, ...] = ()


class NodeSelector(Wire, frozen=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredNodes(Wire, frozen=True):
    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Wire, frozen=True):
    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredNodes, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Wire, frozen=True):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class PreferredPods(Wire, frozen=True):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Wire, frozen=True):
    """Affinity to other pods, or anti-affinity: the two have one shape."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[PreferredPods, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Wire, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Wire, frozen=True):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class SchedulingGate(Wire, frozen=True):
    name: str = ""


class PodSpec(Wire, frozen=True):
    node_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: ResourceRequirements | None = None
    """Pod-level resources, which stand in place of the containers' sum where they name a resource."""
    overhead: ResourceList = EMPTY
    restart_policy: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    scheduler_name: str = ""
    node_selector: Mapping[str, str] = EMPTY
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    topology_spread_constraints: tuple[dict[str, Any], ...] = ()


class Terminated(Wire, frozen=True):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class Running(Wire, frozen=True):
    started_at: str | None = None


class Waiting(Wire, frozen=True):
    reason: str = ""
    message: str = ""


class ContainerState(Wire, frozen=True):
    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Wire, frozen=True):
    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    resources: ResourceRequirements | None = None
    """What the node has really given, which differs from the spec while a resize is under way."""


class PodStatus(Wire, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: str | None = None
    nominated_node_name: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()

    def condition(self, kind: str) -> Condition | None:
        return next((condition for condition in self.conditions if condition.type == kind), None)


class PodTemplate(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class Pod(Wire, frozen=True):
    API_VERSION: ClassVar = "v1"
    KIND: ClassVar = "Pod"

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
        """The Ready condition, if it is true."""
        ready = self.status.condition("Ready")
        return ready if ready is not None and ready.status == "True" else None

    @property
    def ready(self) -> bool:
        return self.ready_condition is not None

    @property
    def restarts(self) -> int:
        statuses = (*self.status.container_statuses, *self.status.init_container_statuses)
        return sum(status.restart_count for status in statuses)
