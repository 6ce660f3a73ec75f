"""Taints for the condition of a node, and how long a pod may stay on a node that has them. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any

from edl.api.kubernetes.pod_network import Toleration
from edl.api.kubernetes.tolerations import tolerates
from edl.embedded.controllers.types import Node, Taint

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
PRESSURE = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
}
_OURS = (NOT_READY, UNREACHABLE, UNSCHEDULABLE, *PRESSURE.values())
DEFAULT_SECONDS = 300
"""How long a pod that says nothing stays on a lost node: Kubernetes adds these tolerations when a pod is created."""


def taints_of(node: Node, now: str) -> list[dict[str, Any]]:
    """The node's taints with ours as they should be; others' are left alone, and so is the time of one that stays."""
    wanted: list[tuple[str, str]] = []
    state = node.ready_status
    if state != "True":
        key = NOT_READY if state == "False" else UNREACHABLE
        wanted += [(key, "NoSchedule"), (key, "NoExecute")]
    if node.spec.unschedulable:
        wanted.append((UNSCHEDULABLE, "NoSchedule"))
    wanted += [
        (PRESSURE[one.type], "NoSchedule")
        for one in node.status.conditions
        if one.type in PRESSURE and one.status == "True"
    ]
    kept = [one for one in node.spec.taints if one.key not in _OURS or (one.key, one.effect) in wanted]
    have = {(one.key, one.effect) for one in kept}
    added = [Taint(key, "", effect, now) for key, effect in wanted if (key, effect) not in have]
    return [as_object(one) for one in (*kept, *added)]


def as_object(taint: Taint) -> dict[str, Any]:
    fields = {"key": taint.key, "value": taint.value, "effect": taint.effect, "timeAdded": taint.time_added}
    return {name: value for name, value in fields.items() if value}


def seconds_left(tolerations: Sequence[Toleration], taints: Iterable[Taint]) -> float | None:
    """How long after it was tainted a pod may stay on a node; None is for ever."""
    least: float | None = None
    for taint in taints:
        if taint.effect != "NoExecute":
            continue
        limits = [one.toleration_seconds for one in tolerations if tolerates(one, taint)]
        if not limits:
            limit = float(DEFAULT_SECONDS) if taint.key in (NOT_READY, UNREACHABLE) else 0.0
        elif None in limits:
            continue
        else:
            limit = max(0.0, min(float(one) for one in limits if one is not None))
        least = limit if least is None else min(least, limit)
    return least
