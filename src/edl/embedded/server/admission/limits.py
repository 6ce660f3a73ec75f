"""LimitRanges: default requests and limits for containers, and bounds on what they may ask for."""

from collections.abc import Iterator

from edl.api.kubernetes import quantity
from edl.embedded.server import status
from edl.embedded.server.core import Core
from edl.embedded.server.kinds.pod_defaults import containers
from edl.embedded.server.verbs.call import Call, Object

_ANNOTATION = "kubernetes.io/limit-ranger"


def _ranges(core: Core, namespace: str) -> Iterator[Object]:
    if core.store.count("/limitranges"):
        for entry in core.store.entries("/limitranges", namespace):
            yield from core.peek(entry)["spec"].get("limits") or ()


def apply_defaults(core: Core, call: Call, pod: Object) -> None:
    notes: list[str] = []
    for limit in _ranges(core, call.namespace):
        if limit.get("type") == "Container":
            for container in containers(pod["spec"]):
                notes += _complete(container, limit)
    if notes:
        pod["metadata"].setdefault("annotations", {})[_ANNOTATION] = "LimitRanger plugin set: " + "; ".join(notes)


def _complete(container: Object, limit: Object) -> Iterator[str]:
    resources = container["resources"]
    for field, source in (("requests", "defaultRequest"), ("limits", "default")):
        given = resources.get(field) or {}
        added = [name for name in sorted(limit.get(source) or {}) if name not in given]
        if added:
            resources[field] = {**given, **{name: limit[source][name] for name in added}}
            yield f"{', '.join(added)} {field.removesuffix('s')} for container {container['name']}"


def check(core: Core, call: Call, pod: Object) -> None:
    for limit in _ranges(core, call.namespace):
        if limit.get("type") == "Container":
            problems = [
                text
                for container in containers(pod["spec"])
                for text in _violations(container["resources"], limit, "Container")
            ]
        elif limit.get("type") == "Pod":
            problems = list(_violations(_total(pod["spec"]), limit, "Pod"))
        else:
            continue
        if problems:
            text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
            raise status.forbidden("", "pods", pod["metadata"].get("name", ""), text)


def _total(spec: Object) -> Object:
    total: Object = {}
    for field in ("requests", "limits"):
        sums: dict[str, str] = {}
        for container in spec.get("containers") or ():
            for name, amount in (container["resources"].get(field) or {}).items():
                before = quantity.nano(sums.get(name, "0"))
                sums[name] = quantity.like(amount, before + quantity.nano(amount))
        total[field] = sums
    return total


def _violations(resources: Object, limit: Object, what: str) -> Iterator[str]:
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name, least in (limit.get("min") or {}).items():
        if name not in requests:
            yield f"minimum {name} usage per {what} is {least}.  No request is specified"
        elif quantity.nano(requests[name]) < quantity.nano(least):
            yield f"minimum {name} usage per {what} is {least}, but request is {requests[name]}"
    for name, most in (limit.get("max") or {}).items():
        if name not in limits:
            yield f"maximum {name} usage per {what} is {most}.  No limit is specified"
        elif quantity.nano(limits[name]) > quantity.nano(most):
            yield f"maximum {name} usage per {what} is {most}, but limit is {limits[name]}"
