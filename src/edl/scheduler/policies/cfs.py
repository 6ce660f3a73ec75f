"""`cfs`: the GPU-priority CFS design. The unit with the least weighted running time is served first."""

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edl.scheduler.unit import Unit


class Cfs:
    name = "cfs"
    rebalances = True
    divides = False

    def serving_order(self, unit: "Unit") -> tuple[Any, ...]:
        """The least score; then `unit.tie`, written out: every unit comes by here in every cycle."""
        facts = unit.facts
        return unit.score, -unit.priority, facts.created, facts.namespace, facts.name, facts.kind

    def giving_order(self, unit: "Unit") -> tuple[Any, ...]:
        """The largest weighted share; among equals the right-most of the tree."""
        facts = unit.facts
        return -unit.share, -unit.score, unit.priority, -facts.created, facts.namespace, facts.name, facts.kind

    def giving_class(self, unit: "Unit") -> float:
        """The order of magnitude of its share: shares are balanced, but pods stay where they are put."""
        return -math.frexp(unit.share)[1]

    def starts_without_capacity(self, unit: "Unit") -> bool:
        return False
