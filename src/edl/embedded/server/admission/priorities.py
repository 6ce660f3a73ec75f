"""Resolves priority classes to numbers on pods, and adds the default tolerations and taints around node readiness."""

from edl.embedded.server import status
from edl.embedded.server.core import Core
from edl.embedded.server.verbs.call import Call, Object

_STORAGE = "scheduling.k8s.io/priorityclasses"
_GRACE_SECONDS = 300
_ABSENCES = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def set_priority(core: Core, call: Call, pod: Object) -> None:
    spec = pod["spec"]
    name = spec.get("priorityClassName") or ""
    chosen = _find(core, call, pod, name) if name else _global_default(core)
    if chosen is not None:
        spec["priorityClassName"] = chosen["metadata"].get("name", "")
    value = chosen.get("value", 0) if chosen is not None else 0
    policy = (chosen or {}).get("preemptionPolicy") or "PreemptLowerPriority"
    if spec.get("priority") is not None and spec["priority"] != value:
        why = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; priority admission "
            f"controller computed {value} from the given PriorityClass name"
        )
        raise status.forbidden("", "pods", pod["metadata"].get("name", ""), why)
    spec["priority"] = value
    spec["preemptionPolicy"] = spec.get("preemptionPolicy") or policy


def _find(core: Core, call: Call, pod: Object, name: str) -> Object:
    entry = core.store.latest(_STORAGE, ("", name))
    if entry is None:
        raise status.forbidden(
            "", "pods", pod["metadata"].get("name", ""), f"no PriorityClass with name {name} was found"
        )
    return core.peek(entry)


def _global_default(core: Core) -> Object | None:
    """The lowest of several, as in Kubernetes."""
    found = [core.peek(entry) for entry in core.store.entries(_STORAGE)]
    defaults = [entry for entry in found if entry.get("globalDefault")]
    return min(defaults, key=lambda entry: int(entry.get("value", 0)), default=None)


def add_default_tolerations(pod: Object) -> None:
    tolerations = pod["spec"].get("tolerations") or []
    for key in _ABSENCES:
        if not any(_covers(toleration, key) for toleration in tolerations):
            grace = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _GRACE_SECONDS}
            tolerations = [*tolerations, grace]
    pod["spec"]["tolerations"] = tolerations


def taint_until_ready(node: Object) -> None:
    """Taints a new node, until the node life cycle controller has seen it ready."""
    taints = node["spec"].get("taints") or []
    if not any(taint.get("key") == _ABSENCES[0] and taint.get("effect") == "NoSchedule" for taint in taints):
        node["spec"]["taints"] = [*taints, {"key": _ABSENCES[0], "effect": "NoSchedule"}]


def _covers(toleration: Object, key: str) -> bool:
    same_key = toleration.get("key") == key or (not toleration.get("key") and toleration.get("operator") == "Exists")
    return same_key and toleration.get("effect", "") in ("", "NoExecute")
