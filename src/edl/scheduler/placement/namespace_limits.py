"""The limits of a namespace: LimitRange sets defaults and refuses pods, ResourceQuota counts them (decision 25).

Pods that exist have been through this; pods that are only planned must be seen as the API server will see them.
"""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from edl.api.kubernetes.cluster import ScopeRequirement
from edl.api.kubernetes.core import Container, LimitRange, LimitRangeItem, PodSpec, ResourceQuota, ResourceRequirements
from edl.scheduler.placement.resources import (
    CPU,
    MEMORY,
    Amounts,
    add,
    amount,
    amounts,
    container_requests,
    pod_requests,
    show,
)

_COMPUTE = (CPU, MEMORY, "ephemeral-storage")
_COUNTS = ("pods", "count/pods")


def admitted(spec: PodSpec, ranges: Iterable[LimitRange]) -> tuple[PodSpec, str]:
    """The pod as the namespace would have it, and why it would refuse it, if it would."""
    items = [item for one in ranges for item in one.spec.limits or ()]
    if not items:
        return spec, ""
    for item in items:
        if item.type == "Container":
            spec = replace(
                spec,
                containers=tuple(_filled(container, item) for container in spec.containers),
                init_containers=tuple(_filled(container, item) for container in spec.init_containers),
            )
    for item in items:
        if problem := _refusal(spec, item):
            return spec, problem
    return spec, ""


def _filled(container: Container, item: LimitRangeItem) -> Container:
    """A limit that is given is the request that is not; only then do defaults count."""
    resources = container.resources
    limits = {**item.default, **resources.limits}
    requests = {**item.default, **item.default_request, **resources.limits, **resources.requests}
    return replace(container, resources=ResourceRequirements(requests=requests, limits=limits))


def _refusal(spec: PodSpec, item: LimitRangeItem) -> str:
    if item.type == "Pod":
        return _outside(pod_requests(spec), _stated_limits(spec.containers), item, "pod")
    if item.type == "Container":
        for container in (*spec.containers, *spec.init_containers):
            if problem := _outside(
                container_requests(container), amounts(container.resources.limits), item, container.name
            ):
                return problem
    return ""


def _stated_limits(containers: Iterable[Container]) -> Amounts:
    total: Amounts = {}
    for container in containers:
        add(total, amounts(container.resources.limits))
    return total


def _outside(requests: Mapping[str, int], limits: Mapping[str, int], item: LimitRangeItem, who: str) -> str:
    for name, value in item.min.items():
        if requests.get(name, 0) < amount(name, value):
            return f"LimitRange: {who} must ask for at least {show(name, amount(name, value))}"
    for name, value in item.max.items():
        if name not in limits or limits[name] > amount(name, value):
            return f"LimitRange: {who} must have a limit of at most {show(name, amount(name, value))}"
    for name, value in item.max_limit_request_ratio.items():
        asked, limit = requests.get(name, 0), limits.get(name, 0)
        # both amounts are in the same unit, so the ratio is one in thousandths
        if not asked or limit * 1000 > asked * amount(CPU, value):
            return f"LimitRange: {who} may have {value} times its {name} request as limit at most"
    return ""


def counted_names(quota: ResourceQuota) -> list[str]:
    """The lines of a quota that pods take from."""
    hard = quota.spec.hard or quota.status.hard
    return [name for name in hard if name in _COUNTS or _base(name) in _COMPUTE or name.startswith("requests.")]


def _base(name: str) -> str:
    return name.removeprefix("requests.").removeprefix("limits.")


def quota_amount(name: str, value: str | int | float) -> int:
    return amount(_base(name), value)


def taken(requests: Mapping[str, int], limits: Mapping[str, int], name: str) -> int:
    """What one pod takes of a line."""
    if name in _COUNTS:
        return 1
    return (limits if name.startswith("limits.") else requests).get(_base(name), 0)


def unstated(spec: PodSpec, name: str) -> str:
    """A quota on CPU or memory refuses pods that do not say how much they take."""
    base = _base(name)
    if name in _COUNTS or base not in _COMPUTE[:2]:
        return ""
    limits = name.startswith("limits.")
    for container in (*spec.containers, *spec.init_containers):
        stated = (
            container.resources.limits if limits else {**container.resources.limits, **container.resources.requests}
        )
        if base not in stated:
            return f"its quota counts {name}, so container {container.name} must state it"
    return ""


def in_scope(spec: PodSpec, quota: ResourceQuota) -> bool:
    """Whether a quota counts such a pod at all."""
    selector = quota.spec.scope_selector
    wanted = [ScopeRequirement(scope, "Exists") for scope in quota.spec.scopes]
    wanted += selector.match_expressions if selector is not None else ()
    return all(_scope_holds(spec, requirement) for requirement in wanted)


def _scope_holds(spec: PodSpec, requirement: ScopeRequirement) -> bool:
    best_effort = not any(
        container.resources.requests or container.resources.limits
        for container in (*spec.containers, *spec.init_containers)
    )
    match requirement.scope_name:
        case "BestEffort":
            return best_effort
        case "NotBestEffort":
            return not best_effort
        case "NotTerminating":
            return True  # pods of ours have no deadline of their own
        case "PriorityClass":
            return _class_holds(spec.priority_class_name, requirement)
    return False


def _class_holds(name: str, requirement: ScopeRequirement) -> bool:
    match requirement.operator:
        case "In":
            return name in requirement.values
        case "NotIn":
            return name not in requirement.values
        case "DoesNotExist":
            return not name
    return bool(name)
