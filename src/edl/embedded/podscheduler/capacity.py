"""Capacity of a node that a pod takes: its requests, one of the node's pods, and what a resize has not given back."""

from collections.abc import Iterable

from edl.api.kubernetes import quantity
from edl.api.kubernetes.core import Pod
from edl.embedded import pod_requests
from edl.embedded.pod_requests import Amounts, amounts, larger, plus

_POD: Amounts = {"pods": quantity.NANO}


def requests_of(pod: Pod) -> Amounts:
    """Its requests, and one pod."""
    return plus(pod_requests.requests_of(pod), _POD)


def used_by(pod: Pod) -> Amounts:
    """Taken by a pod that runs: while it is resized, the larger of what it requests and what it has. A resize that
    its node can never grant takes nothing."""
    if pod_requests.resize_pending(pod) == pod_requests.INFEASIBLE:
        return requests_of(pod_requests.in_force(pod))
    given: Amounts = {}
    for status in pod.status.container_statuses:
        if status.resources is not None:
            given = plus(given, amounts(status.resources.requests))
    return larger(requests_of(pod), given)


def lacking(wanted: Amounts, free: Amounts) -> Iterable[str]:
    """The resources of which there is not enough."""
    return (name for name, amount in wanted.items() if amount and amount > free.get(name, 0))
