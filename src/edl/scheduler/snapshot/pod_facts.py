"""One pod, reduced to what a snapshot needs. Made once per version of the pod and kept."""

import math
from collections.abc import Mapping

import msgspec

from edl.api.kubernetes import timestamp
from edl.api.kubernetes.core import Pod
from edl.api.labels import LABEL_ROLE
from edl.scheduler.placement.pod_affinity import has_anti_affinity, has_pod_rules
from edl.scheduler.placement.resources import CPU, MEMORY, Vector, pod_amounts
from edl.scheduler.snapshot.ownership import Owner
from edl.scheduler.snapshot.types import Charges


class PodFacts(msgspec.Struct, eq=False, gc=False):
    pod: Pod
    node: str
    """The node that it is bound to or nominated for."""
    bound: bool
    requests: Mapping[str, int]
    limits: Mapping[str, int]
    cpu_limit: int
    memory_limit: int
    role: str
    finished: bool
    succeeded: bool
    leaving_until: float | None
    """When a terminating pod should be gone."""
    running_since: int | None
    """In milliseconds, so that sums are exact whatever their order."""
    refused_since: float | None
    gated: bool
    controller: str
    """Uid of whoever controls it."""
    has_pod_rules: bool
    has_anti_affinity: bool
    vector: Vector = ()
    charges: Charges = ()
    charged_by: object = None
    """The ledger whose lines `charges` are about."""
    owner: Owner = None
    """As it was counted."""


def read_pod(pod: Pod) -> PodFacts:
    spec, status, metadata = pod.spec, pod.status, pod.metadata
    controller = metadata.controller
    requests, limits = pod_amounts(spec, status.container_statuses, infeasible=_resize_infeasible(pod))
    created = moment(metadata.creation_timestamp)
    deleted = metadata.deletion_timestamp
    role = metadata.labels.get(LABEL_ROLE) or (spec.containers[0].name if spec.containers else "")
    refused_since = None
    if not spec.node_name:
        scheduled = status.condition("PodScheduled")
        if scheduled is not None and scheduled.status == "False" and scheduled.reason == "Unschedulable":
            refused_since = moment(scheduled.last_transition_time, created)
    return PodFacts(
        pod=pod,
        node=spec.node_name or status.nominated_node_name,
        bound=bool(spec.node_name),
        requests=requests,
        limits=limits,
        cpu_limit=limits.get(CPU, 0),
        memory_limit=limits.get(MEMORY, 0),
        role=role,
        finished=pod.finished,
        succeeded=status.phase == "Succeeded",
        leaving_until=None if deleted is None else moment(deleted),
        running_since=_milliseconds(moment(status.start_time)) if status.phase == "Running" else None,
        refused_since=refused_since,
        gated=bool(spec.scheduling_gates),
        controller=controller.uid if controller is not None else "",
        has_pod_rules=has_pod_rules(spec),
        has_anti_affinity=has_anti_affinity(spec),
    )


def moment(text: str | None, otherwise: float = math.inf) -> float:
    """Seconds since 1970; what is missing or no timestamp counts as `otherwise`, by default not yet."""
    try:
        return timestamp.seconds(text) if text else otherwise
    except (ValueError, OverflowError):
        return otherwise


def _resize_infeasible(pod: Pod) -> bool:
    pending = pod.status.condition("PodResizePending")
    return pending is not None and pending.status == "True" and pending.reason == "Infeasible"


def _milliseconds(seconds: float) -> int | None:
    return None if seconds == math.inf else round(seconds * 1000)
