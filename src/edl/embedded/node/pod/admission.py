"""Admission of a pod that was bound to this node, and of its resizes: the node refuses what it has no capacity for, as
the kubelet does before it starts or changes anything. Pure.
"""

from collections.abc import Iterable

from edl.api.kubernetes import quantity
from edl.api.kubernetes.pod import ResourceList
from edl.embedded.node.pod.types import Pod
from edl.embedded.pod_requests import DEFERRED, INFEASIBLE, Amounts, amounts, requests_of


def shortage(pod: Pod, others: Iterable[Amounts], allocatable: ResourceList) -> tuple[str, str] | None:
    """The reason and message of a refusal, or None: it fits beside the others."""
    others = list(others)
    capacity = amounts(allocatable)
    wanted = {"pods": quantity.NANO, **requests_of(pod)}
    for name, amount in wanted.items():
        used = len(others) * quantity.NANO if name == "pods" else _used(others, name)
        if amount and used + amount > capacity.get(name, 0):
            figures = _figures(requested=amount, used=used, capacity=capacity.get(name, 0))
            return f"OutOf{name}", f"Pod was rejected: Node didn't have enough resource: {name}, {figures}"
    return None


def evicted(conditions: Iterable[str]) -> tuple[str, str]:
    """The reason and message for a pod that cannot run here because of the machine: not its own failure."""
    return "Evicted", f"The node had condition: [{', '.join(conditions)}]. "


def resize_refusal(
    wanted: Amounts, given: Amounts, others: Iterable[Amounts], allocatable: ResourceList
) -> tuple[str, str] | None:
    """Why a running pod cannot be given more now (Deferred: others use it) or ever (Infeasible), or None."""
    others = list(others)
    capacity = amounts(allocatable)
    grown = {name: amount for name, amount in wanted.items() if amount > given.get(name, 0)}
    for name, amount in grown.items():
        if amount > capacity.get(name, 0):
            figures = _figures(requested=amount, capacity=capacity.get(name, 0))
            return INFEASIBLE, f"Node didn't have enough capacity: {name}, {figures}"
    for name, amount in grown.items():
        used = _used(others, name)
        if used + amount > capacity.get(name, 0):
            figures = _figures(requested=amount, used=used, capacity=capacity.get(name, 0))
            return DEFERRED, f"Node didn't have enough resource: {name}, {figures}"
    return None


def _used(others: Iterable[Amounts], name: str) -> int:
    return sum(one.get(name, 0) for one in others)


def _figures(**values: int) -> str:
    return ", ".join(f"{what}: {quantity.text(value)}" for what, value in values.items())
