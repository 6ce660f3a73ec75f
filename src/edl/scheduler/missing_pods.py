"""The pods that a unit asks for and was not granted: of its minimum, and of other roles than the leading one."""

from collections.abc import Sequence

from edl.scheduler.role_grants import Pods
from edl.scheduler.unit import Unit


def missing_pods(unit: Unit) -> Pods:
    """The pods of its minimum, and of other roles at its size, that it was not granted yet, by role."""
    wanted, granted = unit.facts.pods_at(max(unit.minimum, unit.size)), unit.pods_at(unit.size)
    return tuple(max(0, most - have) for most, have in zip(wanted, granted, strict=True))


def missing_text(unit: Unit, pods: Sequence[int]) -> str:
    """As `2 more ps and 1 more evaluator`."""
    roles = zip(unit.facts.roles, pods, strict=True)
    return " and ".join(f"{count} more {role.name}" for role, count in roles if count > 0)


def makes_own_room(unit: Unit) -> bool:
    """The pods that it lacks belong to its minimum, so that its own instances above that may go for them."""
    if not unit.lacks_roles:
        return False
    least, have = unit.facts.pods_at(unit.floor), unit.pods_at(unit.size)
    return all(count == 0 or least[role] - have[role] == count for role, count in enumerate(missing_pods(unit)))
