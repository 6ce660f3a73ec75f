"""Pods: initial status, QoS class, and the few fields of a running pod that may change."""

import copy

from edl.api.kubernetes import quantity
from edl.embedded.server import causes
from edl.embedded.server.kinds.base import Strategy
from edl.embedded.server.kinds.pod_defaults import containers, default_pod_alone, default_pod_spec
from edl.embedded.server.kinds.pod_validation import check_pod_spec
from edl.embedded.server.status import Cause
from edl.embedded.server.verbs.call import Object

_COMPUTE = ("cpu", "memory")
_IMMUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def _default(pod: Object) -> None:
    default_pod_alone(pod["spec"])
    default_pod_spec(pod["spec"])


def qos_class(spec: Object) -> str:
    """Guaranteed when every container's limits equal its requests, BestEffort when there are none, else Burstable."""
    any_given, guaranteed = False, True
    for container in containers(spec):
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in _COMPUTE:
            request, limit = requests.get(name), limits.get(name)
            any_given = any_given or (request or "0") != "0" or (limit or "0") != "0"
            if limit is None or (request is not None and quantity.nano(request) != quantity.nano(limit)):
                guaranteed = False
    if not any_given:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _prepare_create(pod: Object) -> None:
    pod["status"] = {"phase": "Pending", "qosClass": qos_class(pod["spec"])}
    if pod["spec"].get("schedulingGates"):
        pod["status"]["conditions"] = [_gated(pod["metadata"]["creationTimestamp"])]


def _gated(now: str) -> Object:
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
        "lastProbeTime": None,
        "lastTransitionTime": now,
    }


def _validate(pod: Object) -> list[Cause]:
    return check_pod_spec(pod["spec"], "spec")


def _validate_update(new: Object, old: Object) -> list[Cause]:
    found = check_pod_spec(new["spec"], "spec")
    if found:
        return found
    if len(new["spec"]["containers"]) != len(old["spec"]["containers"]):
        return [causes.forbidden("spec.containers", "pod updates may not add or remove containers")]
    allowed = _with_allowed_changes(new["spec"], old["spec"])
    if allowed != old["spec"]:
        return [causes.forbidden("spec", _IMMUTABLE + "\n" + _difference(allowed, old["spec"]))]
    return []


def _with_allowed_changes(new: Object, old: Object) -> Object:
    """`new` with every permitted change undone: any difference that remains is not permitted."""
    spec = copy.deepcopy(new)
    for kind in ("containers", "initContainers"):
        for mine, before in zip(spec.get(kind) or (), old.get(kind) or (), strict=False):
            mine["image"] = before.get("image", "")
    for name in ("activeDeadlineSeconds", "tolerations"):
        if _may_change(name, new.get(name), old.get(name)):
            _take_back(spec, old, name)
    gates, before = new.get("schedulingGates") or [], old.get("schedulingGates") or []
    if before and all(gate in before for gate in gates):
        spec["schedulingGates"] = before
        for name in ("nodeSelector", "affinity"):  # a gated pod may still be narrowed
            _take_back(spec, old, name)
    return spec


def _take_back(spec: Object, old: Object, name: str) -> None:
    if name in old:
        spec[name] = old[name]
    else:
        spec.pop(name, None)


def _may_change(name: str, new: object, old: object) -> bool:
    if name == "tolerations":
        added, before = new or [], old or []
        assert isinstance(added, list)
        assert isinstance(before, list)
        return all(toleration in added for toleration in before)
    return new is not None and (old is None or int(str(new)) <= int(str(old)))


def _difference(new: Object, old: Object) -> str:
    """The first field that may not change, for the message."""
    for name in sorted({*new, *old}):
        if new.get(name) != old.get(name):
            return f"spec.{name}: {causes.shown(old.get(name))} -> {causes.shown(new.get(name))}"
    return ""


POD = Strategy(
    default=_default,
    prepare_create=_prepare_create,
    validate=_validate,
    validate_update=_validate_update,
    generation=True,
    has_status=True,
    returns_deleted=True,
)
