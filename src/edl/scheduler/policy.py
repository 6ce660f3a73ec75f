"""The policies, behind one signature: who is served next, who gives first, and whether shares are evened out.

`cfs` is the GPU-priority CFS design, `fulfillment` the first autoscaler's. All else (gangs, node fit, quota,
freezing...) is the same for both and is not their business.
"""

import math
from typing import Any, Protocol

from edl.scheduler.settings import PolicyName
from edl.scheduler.unit import Unit


class Policy(Protocol):
    name: PolicyName
    evens_out: bool
    """Whether instances move between jobs that both have their minimum."""

    def serving(self, unit: Unit) -> tuple[Any, ...]:
        """The least is served first."""

    def giving(self, unit: Unit) -> tuple[Any, ...]:
        """The least gives first."""

    def giving_class(self, unit: Unit) -> float:
        """Units of one class give as well as each other where something else speaks for one of them."""

    def starts_anyway(self, unit: Unit) -> bool:
        """A minimum that nobody can make room for is granted all the same."""


class Cfs:
    name: PolicyName = "cfs"
    evens_out = True

    def serving(self, unit: Unit) -> tuple[Any, ...]:
        """The least score; then `unit.tie`, written out: every unit comes by here in every cycle."""
        facts = unit.facts
        return unit.score, -unit.priority, facts.created, facts.namespace, facts.name, facts.kind

    def giving(self, unit: Unit) -> tuple[Any, ...]:
        """The largest weighted share; among equals the right-most of the tree."""
        facts = unit.facts
        return -unit.share, -unit.score, unit.priority, -facts.created, facts.namespace, facts.name, facts.kind

    def giving_class(self, unit: Unit) -> float:
        """The order of magnitude of its share: shares are evened out, but pods stay where they are put."""
        return -math.frexp(unit.share)[1]

    def starts_anyway(self, unit: Unit) -> bool:
        return False


class Fulfillment:
    name: PolicyName = "fulfillment"
    evens_out = False

    def serving(self, unit: Unit) -> tuple[Any, ...]:
        """Least fulfilled; then fewer GPUs, less CPU and memory per instance; then by name."""
        facts = unit.facts
        return unit.fulfilment, *_size_of_instance(unit, 1), facts.namespace, facts.name, facts.kind

    def giving(self, unit: Unit) -> tuple[Any, ...]:
        facts = unit.facts
        return -unit.fulfilment, *_size_of_instance(unit, -1), facts.namespace, facts.name, facts.kind

    def giving_class(self, unit: Unit) -> float:
        return -unit.fulfilment

    def starts_anyway(self, unit: Unit) -> bool:
        """CPU jobs start optimistically, GPU jobs wait."""
        return not unit.gpu


def _size_of_instance(unit: Unit, sign: int) -> tuple[int, int, int]:
    if unit.role is None:
        return 0, 0, 0
    shape = unit.role.shape
    return sign * shape.gpus, sign * shape.requests[0], sign * shape.requests[1]


def policy_named(name: PolicyName) -> Policy:
    return Fulfillment() if name == "fulfillment" else Cfs()
