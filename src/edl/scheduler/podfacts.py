"""One pod, reduced to what a snapshot needs of it. Made once per version of the pod and kept."""

import math

import msgspec

from edl.api import timestamp
from edl.api.annotations import LABEL_ROLE
from edl.api.core import Pod
from edl.scheduler.facts import Taxes
from edl.scheduler.nearness import demands, repels
from edl.scheduler.resources import CPU, MEMORY, PODS, Amounts, Vector, pod_limits, pod_requests


class PodFacts(msgspec.Struct, eq=False):
    pod: Pod
    node: str
    """Where it is bound or nominated."""
    bound: bool
    requests: Amounts
    limits: Amounts
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
    demands: bool
    repels: bool
    vector: Vector = ()
    taxes: Taxes = ()
    taxed_by: object = None
    """The ledger whose accounts `taxes` are about."""


def read_pod(pod: Pod) -> PodFacts:
    spec, status, metadata = pod.spec, pod.status, pod.metadata
    controller, limits = metadata.controller, pod_limits(spec)
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
        requests=pod_requests(spec, status.container_statuses) | {PODS: 1},
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
        demands=demands(spec),
        repels=repels(spec),
    )


def moment(text: str | None, otherwise: float = math.inf) -> float:
    """Seconds since 1970; what is missing or no timestamp counts as `otherwise`, by default not yet."""
    try:
        return timestamp.seconds(text) if text else otherwise
    except (ValueError, OverflowError):
        return otherwise


def _milliseconds(seconds: float) -> int | None:
    return None if seconds == math.inf else round(seconds * 1000)
