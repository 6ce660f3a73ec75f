"""Namespaces, nodes, leases, quotas, limit ranges and priority classes."""

from edl.api.kubernetes import quantity
from edl.embedded.server import causes
from edl.embedded.server.kinds.base import Strategy
from edl.embedded.server.status import Cause
from edl.embedded.server.verbs.call import Object

_HIGHEST_PRIORITY = 1_000_000_000
_TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def _default_namespace(namespace: Object) -> None:
    labels = namespace["metadata"].setdefault("labels", {})
    labels["kubernetes.io/metadata.name"] = namespace["metadata"].get("name", "")


def _prepare_namespace(namespace: Object) -> None:
    namespace["status"] = {"phase": "Active"}
    finalizers = namespace["spec"].setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")


def _keep_finalizers(new: Object, old: Object) -> None:
    """Only the `finalize` subresource removes a namespace's finalizers."""
    new["spec"] = old["spec"]


def _default_node(node: Object) -> None:
    status = node["status"]
    if "capacity" in status and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])


def _check_node(node: Object) -> list[Cause]:
    found = []
    for index, taint in enumerate(node["spec"].get("taints") or ()):
        if taint.get("effect", "") not in _TAINT_EFFECTS:
            found.append(
                causes.unsupported(f"metadata.taints[{index}].effect", taint.get("effect", ""), _TAINT_EFFECTS)
            )
    return found


def _check_lease(lease: Object) -> list[Cause]:
    found = []
    for name in ("leaseDurationSeconds", "leaseTransitions"):
        value = lease["spec"].get(name)
        least = 1 if name == "leaseDurationSeconds" else 0
        if value is not None and value < least:
            detail = f"must be greater than {'0' if least else 'or equal to 0'}"
            found.append(causes.invalid(f"spec.{name}", value, detail))
    return found


def _check_quota(quota: Object) -> list[Cause]:
    found = []
    for name, amount in (quota["spec"].get("hard") or {}).items():
        if quantity.nano(amount) < 0:
            found.append(causes.invalid(f"spec.hard[{name}]", amount, "must be greater than or equal to 0"))
    return found


def _prepare_quota(quota: Object) -> None:
    quota["status"] = {}


def _default_limits(limit_range: Object) -> None:
    for item in limit_range["spec"].get("limits") or ():
        if item.get("type") != "Container":
            continue
        default = item.setdefault("default", {})
        for name, amount in (item.get("max") or {}).items():
            default.setdefault(name, amount)
        requests = item.setdefault("defaultRequest", {})
        for name, amount in default.items():
            requests.setdefault(name, amount)
        for name, amount in (item.get("min") or {}).items():
            requests.setdefault(name, amount)
        for name in ("default", "defaultRequest"):
            if not item[name]:
                del item[name]


def _check_limits(limit_range: Object) -> list[Cause]:
    found = []
    for index, item in enumerate(limit_range["spec"].get("limits") or ()):
        for name, least in (item.get("min") or {}).items():
            at = f"spec.limits[{index}]"
            for field, word in (("max", "max"), ("defaultRequest", "default request"), ("default", "default")):
                other = (item.get(field) or {}).get(name)
                if other is None or quantity.nano(least) <= quantity.nano(other):
                    continue
                place, shown = (
                    ("min", least) if field == "max" else (field, other if field == "defaultRequest" else least)
                )
                detail = f"min value {least} is greater than {word} value {other}"
                found.append(causes.invalid(f"{at}.{place}[{name}]", shown, detail))
    return found


def _default_priority(priority: Object) -> None:
    priority.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _check_priority(priority: Object) -> list[Cause]:
    name, value = priority["metadata"].get("name", ""), priority.get("value", 0)
    if name.startswith("system-") and name not in ("system-node-critical", "system-cluster-critical"):
        detail = "priority class names with 'system-' prefix are reserved for system use only. "
        detail += f"error: {name} is not a known system priority class"
        return [causes.forbidden("metadata.name", detail)]
    if value > _HIGHEST_PRIORITY and not name.startswith("system-"):
        detail = f"maximum allowed value of a user defined priority is {_HIGHEST_PRIORITY}"
        return [causes.forbidden("value", detail)]
    return []


def _check_priority_update(new: Object, old: Object) -> list[Cause]:
    found = []
    if new.get("value", 0) != old.get("value", 0):
        found.append(causes.forbidden("value", "may not be changed in an update."))
    if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
        found.append(causes.immutable("preemptionPolicy", new.get("preemptionPolicy")))
    return found


NAMESPACE = Strategy(
    default=_default_namespace,
    prepare_create=_prepare_namespace,
    prepare_update=_keep_finalizers,
    has_status=True,
    returns_deleted=True,
)
NODE = Strategy(default=_default_node, validate=_check_node, validate_update=lambda new, _old: _check_node(new))
LEASE = Strategy(validate=_check_lease, validate_update=lambda new, _old: _check_lease(new), unconditional=False)
QUOTA = Strategy(
    prepare_create=_prepare_quota,
    validate=_check_quota,
    validate_update=lambda new, _old: _check_quota(new),
    has_status=True,
    returns_deleted=True,
)
LIMIT_RANGE = Strategy(
    default=_default_limits, validate=_check_limits, validate_update=lambda new, _old: _check_limits(new)
)
PRIORITY = Strategy(
    default=_default_priority,
    validate=_check_priority,
    validate_update=_check_priority_update,
    generation=True,
)
