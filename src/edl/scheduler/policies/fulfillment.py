"""`fulfillment`: the first autoscaler's design. The unit that has least of its range is served first."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edl.scheduler.unit import Unit


class Fulfillment:
    name = "fulfillment"
    rebalances = False
    divides = False

    def serving_order(self, unit: "Unit") -> tuple[Any, ...]:
        """Least fulfilled; then fewer GPUs, less CPU and memory per instance; then by name."""
        facts = unit.facts
        return unit.fulfilment, *_instance_size(unit, 1), facts.namespace, facts.name, facts.kind

    def giving_order(self, unit: "Unit") -> tuple[Any, ...]:
        facts = unit.facts
        return -unit.fulfilment, *_instance_size(unit, -1), facts.namespace, facts.name, facts.kind

    def giving_class(self, unit: "Unit") -> float:
        return -unit.fulfilment

    def starts_without_capacity(self, unit: "Unit") -> bool:
        """CPU jobs start optimistically, GPU jobs wait."""
        return not unit.gpu


def _instance_size(unit: "Unit", sign: int) -> tuple[int, int, int]:
    if unit.role is None:
        return 0, 0, 0
    shape = unit.role.shape
    return sign * shape.gpus, sign * shape.requests[0], sign * shape.requests[1]
