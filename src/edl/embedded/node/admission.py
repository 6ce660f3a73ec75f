"""Whether a pod that was bound to this node has room on it, as the kubelet checks before it starts anything. Pure."""

from collections.abc import Iterable

from edl.api import quantity
from edl.api.pod import ResourceList
from edl.embedded.node.pod import Container, Pod

Amounts = dict[str, int]
"""In nanos, by resource."""


def requests_of(pod: Pod) -> Amounts:
    """The larger of what the containers need together and what initialising needs, sidecars counting in both."""
    total: Amounts = {}
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in pod.spec.init_containers:
        amounts = _amounts(_requests(container))
        if container.sidecar:
            sidecars = _plus(sidecars, amounts)
            amounts = sidecars
        else:
            amounts = _plus(sidecars, amounts)
        peak = {name: max(peak.get(name, 0), amounts.get(name, 0)) for name in {*peak, *amounts}}
    for container in pod.spec.containers:
        total = _plus(total, _amounts(_requests(container)))
    total = _plus(total, sidecars)
    total = {name: max(total.get(name, 0), peak.get(name, 0)) for name in {*total, *peak}}
    if pod.spec.resources is not None:
        total |= _amounts({**pod.spec.resources.limits, **pod.spec.resources.requests})
    return _plus(total, _amounts(pod.spec.overhead))


def shortage(pod: Pod, others: Iterable[Amounts], allocatable: ResourceList) -> tuple[str, str] | None:
    """The reason and message of a refusal, or None: it fits beside the others."""
    others = list(others)
    room = _amounts(allocatable)
    wanted = {"pods": quantity.NANO, **requests_of(pod)}
    for name, amount in wanted.items():
        used = len(others) * quantity.NANO if name == "pods" else sum(one.get(name, 0) for one in others)
        if amount and used + amount > room.get(name, 0):
            facts = {"requested": amount, "used": used, "capacity": room.get(name, 0)}
            words = ", ".join(f"{what}: {quantity.text(value)}" for what, value in facts.items())
            return f"OutOf{name}", f"Pod was rejected: Node didn't have enough resource: {name}, {words}"
    return None


def _requests(container: Container) -> ResourceList:
    """A limit without a request is the request."""
    return {**container.resources.limits, **container.resources.requests}


def _amounts(resources: ResourceList) -> Amounts:
    return {name: quantity.nano(value) for name, value in resources.items()}


def _plus(one: Amounts, other: Amounts) -> Amounts:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {*one, *other}}
