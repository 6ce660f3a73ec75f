"""How much a pod asks for and how much a node has left. Amounts are nanos, by resource."""

from collections.abc import Iterable, Mapping

from edl.api import quantity
from edl.api.core import Container, Pod, ResourceList

Amounts = Mapping[str, int]

POD: Amounts = {"pods": quantity.NANO}


def requests_of(pod: Pod) -> Amounts:
    """Containers and sidecars together, or what initialising needs at once if that is more; and one pod."""
    together: Amounts = {}
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in pod.spec.init_containers:
        own = _asked(container)
        at_once = plus(sidecars, own)
        if container.restart_policy == "Always":
            sidecars = at_once
        peak = _larger(peak, at_once)
    for container in pod.spec.containers:
        together = plus(together, _asked(container))
    total = dict(_larger(plus(together, sidecars), peak))
    if pod.spec.resources is not None:
        total |= amounts({**pod.spec.resources.limits, **pod.spec.resources.requests})
    return plus(plus(total, amounts(pod.spec.overhead)), POD)


def given_to(pod: Pod) -> Amounts:
    """What a pod that runs occupies: while it is resized, the larger of what it asks and what it has."""
    given: Amounts = {}
    for status in pod.status.container_statuses:
        if status.resources is not None:
            given = plus(given, amounts(status.resources.requests))
    return _larger(requests_of(pod), given)


def _asked(container: Container) -> Amounts:
    """A limit without a request is a request."""
    return amounts({**container.resources.limits, **container.resources.requests})


def amounts(resources: ResourceList) -> Amounts:
    return {name: quantity.nano(value) for name, value in resources.items()}


def plus(one: Amounts, other: Amounts) -> Amounts:
    if not one or not other:
        return one or other
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def minus(one: Amounts, other: Amounts) -> Amounts:
    return {name: one.get(name, 0) - other.get(name, 0) for name in {**one, **other}}


def _larger(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}


def lacking(wanted: Amounts, free: Amounts) -> Iterable[str]:
    """The resources of which there is not enough."""
    return (name for name, amount in wanted.items() if amount and amount > free.get(name, 0))
