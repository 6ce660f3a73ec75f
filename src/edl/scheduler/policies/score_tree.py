"""The one queue of the CFS design: units ordered by a score, from the least served to the most."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from sortedcontainers import SortedList

from edl.scheduler.unit import Unit

Order = Callable[[Unit], tuple[Any, ...]]


class ScoreTree:
    """A unit keeps the position of its score when it was added: remove it before its size changes, then add it
    again.
    """

    def __init__(self, order: Order, units: Iterable[Unit] = ()) -> None:
        self._order = order
        self._keys: dict[int, tuple[Any, ...]] = {}
        entries = []
        for unit in units:
            key = self._keys[id(unit)] = order(unit)
            entries.append((key, id(unit), unit))
        self._list = SortedList(entries)

    def add(self, unit: Unit) -> None:
        if id(unit) in self._keys:
            raise ValueError(f"{unit.facts.path} is in the tree already")
        key = self._keys[id(unit)] = self._order(unit)
        self._list.add((key, id(unit), unit))

    def remove(self, unit: Unit) -> None:
        key = self._keys.pop(id(unit), None)
        if key is None:
            raise ValueError(f"{unit.facts.path} is not in the tree")
        self._list.remove((key, id(unit), unit))

    def pop_leftmost(self) -> Unit:
        unit: Unit = self._list.pop(0)[2]
        del self._keys[id(unit)]
        return unit

    def leftmost(self) -> Unit | None:
        """The least served."""
        return self._list[0][2] if self._list else None

    def rightmost(self) -> Unit | None:
        """The most served."""
        return self._list[-1][2] if self._list else None

    def __iter__(self) -> Iterator[Unit]:
        for _, _, unit in self._list:
            yield unit

    def __contains__(self, unit: Unit) -> bool:
        return id(unit) in self._keys

    def __len__(self) -> int:
        return len(self._list)

    def traverse(self, *callbacks: Callable[[Unit], object]) -> None:
        """Every unit in order, to every callback."""
        for unit in self:
            for callback in callbacks:
                callback(unit)
