"""Divides a budget among units by marginal gain: each step goes where it adds the most utility per cost.

A unit offers *choices*: sizes with their utility. Those on the upper concave hull matter most, since a size below it
is worse than a mixture of its neighbours; so whole-node sizes win where a curve says so, and the greedy division is
the best one up to the last steps. Of a step that is more than what is left, the unit takes the best of its other
choices that is not. Utilities of one unit may be scaled by a weight without changing its hull, so hulls are worked out
once and kept.
"""

import heapq
from collections.abc import Sequence

import msgspec

NEARLY = 0.98  # of the gain of a step that a part of it must bring per instance


class Choice(msgspec.Struct, frozen=True, gc=False):
    size: int
    utility: float


class Choices(msgspec.Struct, frozen=True, gc=False):
    """In the order of their sizes: all of them, and those on the hull, which begins with the least."""

    every: tuple[Choice, ...]
    hull: tuple[Choice, ...]


class Bidder(msgspec.Struct, frozen=True, gc=False):
    """A unit in the division. It has the least of its choices in any case."""

    choices: Choices
    weight: float
    cost: float
    """Of one instance."""


def upper_hull(choices: Sequence[Choice]) -> tuple[Choice, ...]:
    """Of choices in the order of their sizes: those that a rising concave line passes through."""
    hull: list[Choice] = []
    for choice in choices:
        if hull and choice.utility <= hull[-1].utility:
            continue
        while len(hull) > 1 and slope(hull[-2], choice) >= slope(hull[-2], hull[-1]):
            hull.pop()
        hull.append(choice)
    return tuple(hull)


def choices_of(choices: Sequence[Choice]) -> Choices:
    return Choices(tuple(choices), upper_hull(choices))


def slope(one: Choice, other: Choice) -> float:
    return (other.utility - one.utility) / (other.size - one.size)


def divide(bidders: Sequence[Bidder], budget: float) -> list[int]:
    """The size of each. `budget` is what there is beyond everyone's least size."""
    sizes = [bidder.choices.hull[0].size for bidder in bidders]
    heap = [
        (-bidder.weight * slope(*bidder.choices.hull[:2]) / bidder.cost, number, 1)
        for number, bidder in enumerate(bidders)
        if len(bidder.choices.hull) > 1
    ]
    heapq.heapify(heap)
    while heap and budget > 0:
        _, number, position = heapq.heappop(heap)
        bidder = bidders[number]
        hull = bidder.choices.hull
        choice, fits = hull[position], True
        if (choice.size - sizes[number]) * bidder.cost > budget:
            more = budget / bidder.cost
            choice, fits = _best_within(bidder.choices.every, hull[position - 1], hull[position], more), False
        budget -= (choice.size - sizes[number]) * bidder.cost
        sizes[number] = choice.size
        if fits and position + 1 < len(hull):
            gain = bidder.weight * slope(choice, hull[position + 1]) / bidder.cost
            heapq.heappush(heap, (-gain, number, position + 1))
    return sizes


def _best_within(every: Sequence[Choice], now: Choice, wanted: Choice, more: float) -> Choice:
    """The largest part of a step that gains nearly as much per instance as the whole; what it has, if there is none."""
    least = NEARLY * slope(now, wanted)
    able = [choice for choice in every if now.size < choice.size <= now.size + more and slope(now, choice) >= least]
    return max(able, key=lambda choice: choice.size, default=now)
