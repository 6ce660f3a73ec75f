"""The interface of a scheduling policy: the order in which units are served, and the order in which they give.

Gangs, node fit, quota, freezing windows and everything else are the same under every policy and not its business.
"""

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from edl.scheduler.unit import Unit


class Policy(Protocol):
    name: str
    """As users write it."""
    rebalances: bool
    """Whether instances move between jobs that both have their minimum."""

    divides: bool
    """Whether capacity is divided by what each job makes of it, rather than one instance at a time in the order."""

    def serving_order(self, unit: "Unit") -> tuple[Any, ...]:
        """Sort key of admission and growth: the least is served first."""

    def giving_order(self, unit: "Unit") -> tuple[Any, ...]:
        """Sort key of reclaim and rebalance: the least gives first."""

    def giving_class(self, unit: "Unit") -> float:
        """Units of one class give equally well; among them, fewer moves decide."""

    def starts_without_capacity(self, unit: "Unit") -> bool:
        """Whether a minimum for which nobody can free capacity is granted all the same."""
