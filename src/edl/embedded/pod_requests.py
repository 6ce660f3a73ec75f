"""Resources that a pod requests, by Kubernetes' rules: the pod scheduler and the nodes must agree on them.

Amounts are nanos, by resource. Nothing here knows what a node has.
"""

from collections.abc import Mapping
from typing import TypeVar

from msgspec.structs import replace

from edl.api.kubernetes import quantity
from edl.api.kubernetes.core import Container, Pod, ResourceList, ResourceRequirements

Amounts = Mapping[str, int]
P = TypeVar("P", bound=Pod)
RESIZE_PENDING = "PodResizePending"
INFEASIBLE, DEFERRED = "Infeasible", "Deferred"


def requests_of(pod: Pod) -> Amounts:
    """Containers and sidecars together, or what initialising needs at once if that is more."""
    together: Amounts = {}
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in pod.spec.init_containers:
        at_once = plus(sidecars, _requested(container))
        if container.sidecar:
            sidecars = at_once
        peak = larger(peak, at_once)
    for container in pod.spec.containers:
        together = plus(together, _requested(container))
    total = dict(larger(plus(together, sidecars), peak))
    if pod.spec.resources is not None:
        total |= amounts({**pod.spec.resources.limits, **pod.spec.resources.requests})
    return plus(total, amounts(pod.spec.overhead))


def _requested(container: Container) -> Amounts:
    """A limit without a request is a request."""
    return amounts({**container.resources.limits, **container.resources.requests})


def resize_pending(pod: Pod) -> str:
    """The reason for which the node has not given the pod the resources of its spec; empty if it has, or will."""
    pending = pod.status.condition(RESIZE_PENDING)
    return pending.reason if pending is not None and pending.status == "True" else ""


def in_force(pod: P) -> P:
    """The pod with the resources that its node has given, as its status tells them."""
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return with_resources(pod, {one.name: one.resources for one in statuses if one.resources is not None})


def with_resources(pod: P, given: Mapping[str, ResourceRequirements]) -> P:
    """The pod with other resources for the containers that are named."""

    def changed(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        return tuple(replace(one, resources=given.get(one.name, one.resources)) for one in containers)

    init, main = changed(pod.spec.init_containers), changed(pod.spec.containers)
    return replace(pod, spec=replace(pod.spec, init_containers=init, containers=main))


def amounts(resources: ResourceList) -> Amounts:
    return {name: quantity.nano(value) for name, value in resources.items()}


def plus(one: Amounts, other: Amounts) -> Amounts:
    if not one or not other:
        return one or other
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def minus(one: Amounts, other: Amounts) -> Amounts:
    return {name: one.get(name, 0) - other.get(name, 0) for name in {**one, **other}}


def larger(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}
