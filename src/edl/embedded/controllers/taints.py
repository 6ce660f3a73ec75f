"""Which taints a node should carry, and when a pod must leave it because of them. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any

from edl.api.meta import Condition, ObjectMeta, Wire
from edl.embedded.controllers.objects import Toleration

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_OURS = (NOT_READY, UNREACHABLE, UNSCHEDULABLE)
DEFAULT_SECONDS = 300
"""How long a pod that says nothing stays on a lost node: Kubernetes adds these tolerations when a pod is created."""


class Taint(Wire, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class NodeSpec(Wire, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(Wire, frozen=True):
    conditions: tuple[Condition, ...] = ()


class Node(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    def ready(self) -> str:
        """True, False or Unknown."""
        found = next((one for one in self.status.conditions if one.type == "Ready"), None)
        return found.status if found is not None else "Unknown"


def taints_of(node: Node, now: str) -> list[dict[str, Any]]:
    """The node's taints with ours as they should be; others' are left alone, and so is the time of one that stays."""
    wanted: list[tuple[str, str]] = []
    state = node.ready()
    if state != "True":
        key = NOT_READY if state == "False" else UNREACHABLE
        wanted += [(key, "NoSchedule"), (key, "NoExecute")]
    if node.spec.unschedulable:
        wanted.append((UNSCHEDULABLE, "NoSchedule"))
    kept = [one for one in node.spec.taints if one.key not in _OURS or (one.key, one.effect) in wanted]
    have = {(one.key, one.effect) for one in kept}
    added = [Taint(key, "", effect, now) for key, effect in wanted if (key, effect) not in have]
    return [as_object(one) for one in (*kept, *added)]


def as_object(taint: Taint) -> dict[str, Any]:
    fields = {"key": taint.key, "value": taint.value, "effect": taint.effect, "timeAdded": taint.time_added}
    return {name: value for name, value in fields.items() if value}


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or (bool(toleration.key) and toleration.value == taint.value)


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
