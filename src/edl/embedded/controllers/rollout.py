"""Sizes of a Deployment's generations after the next step of a rollout. Pure arithmetic, the same as Kubernetes'."""

import math

import msgspec


class Generation(msgspec.Struct, frozen=True):
    """A ReplicaSet of the Deployment: wanted size, and how many of its pods exist and are available."""

    name: str
    replicas: int
    existing: int
    available: int


def budget(max_surge: int | str, max_unavailable: int | str, desired: int) -> tuple[int, int]:
    """Absolute surge and unavailability. Percentages round up and down respectively; both zero would stand still."""
    surge = _absolute(max_surge, desired, round_up=True)
    unavailable = min(_absolute(max_unavailable, desired, round_up=False), desired)
    return (surge, 1) if surge == 0 and unavailable == 0 else (surge, unavailable)


def _absolute(value: int | str, desired: int, *, round_up: bool) -> int:
    if isinstance(value, int):
        return value
    share = int(value.rstrip("%")) * desired / 100
    return math.ceil(share) if round_up else math.floor(share)


def recreate(new: Generation, old: list[Generation], desired: int) -> dict[str, int]:
    """All of the old, then all of the new."""
    sizes = dict.fromkeys((one.name for one in old), 0)
    if all(one.replicas == 0 and one.existing == 0 for one in old):
        sizes[new.name] = desired
    return sizes


def roll(new: Generation, old: list[Generation], desired: int, *, surge: int, unavailable: int) -> dict[str, int]:
    """One step: grow the new one as far as the surge allows, shrink the old ones as far as availability allows."""
    total = new.replicas + sum(one.replicas for one in old)
    grown = new.replicas
    if grown > desired:
        grown = desired
    elif grown < desired:
        grown += max(0, min(desired - grown, desired + surge - total))
    sizes = {new.name: grown}
    if grown != new.replicas:
        return sizes  # one thing at a time: what exists is counted again before anything is taken away
    return sizes | _shrink(new, old, desired - unavailable, total)


def _shrink(new: Generation, old: list[Generation], least: int, total: int) -> dict[str, int]:
    missing_of_new = new.replicas - new.available
    spare = total - least - missing_of_new
    sizes = {one.name: one.replicas for one in old}
    for one in old:  # first those that serve nobody
        broken = min(one.replicas - min(one.available, one.replicas), max(spare, 0))
        sizes[one.name] -= broken
        spare -= broken
    available = new.available + sum(min(one.available, sizes[one.name]) for one in old)
    spare = min(spare, available - least)
    for one in old:
        step = min(sizes[one.name], max(spare, 0))
        sizes[one.name] -= step
        spare -= step
    return sizes


def spread(generations: list[Generation], desired: int) -> dict[str, int]:
    """A paused Deployment that is scaled: every generation in proportion, the largest takes what rounding leaves."""
    total = sum(one.replicas for one in generations)
    if total == 0 or total == desired:
        return {}
    sizes = {one.name: one.replicas * desired // total for one in generations}
    largest = max(generations, key=lambda one: (one.replicas, one.name))
    sizes[largest.name] += desired - sum(sizes.values())
    return sizes
