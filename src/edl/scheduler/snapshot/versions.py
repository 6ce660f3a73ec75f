"""Tells which objects of a list are new and which are gone, by identity: an object that has changed is another object.

Caches hand out the same object as long as it has not changed, and a new one in its place when it has. So comparing two
lists costs next to nothing, and whoever keeps what was read of an object reads only what is new.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import compress, count
from operator import is_not
from typing import Generic, TypeVar

T = TypeVar("T")


class Versions(Generic[T]):
    """The objects of the last list, one for each key; of several with one key the last counts."""

    def __init__(self, key: Callable[[T], Hashable]) -> None:
        self._key = key
        self._listed: Sequence[T] = ()
        self._by_key: dict[Hashable, T] = {}

    def __iter__(self) -> Iterator[T]:
        return iter(self._by_key.values())

    def update(self, listed: Sequence[T]) -> tuple[list[T], list[T]]:
        """Those that are gone since the last list, and those that are new. A changed object is among both."""
        before, self._listed = self._listed, listed
        found = self._in_place(before, listed) if len(before) == len(self._by_key) <= len(listed) else None
        return self._anywhere(listed) if found is None else found

    def _in_place(self, before: Sequence[T], listed: Sequence[T]) -> tuple[list[T], list[T]] | None:
        """The usual case: each object where it was, perhaps another version of it, and more at the end. Else None."""
        key, by_key = self._key, self._by_key
        gone, new = [], {}
        for place in compress(count(), map(is_not, before, listed)):
            its_key = key(before[place])
            if key(listed[place]) != its_key:
                return None
            gone.append(before[place])
            new[its_key] = listed[place]
        for item in listed[len(before) :]:
            its_key = key(item)
            if its_key in by_key or its_key in new:
                return None
            new[its_key] = item
        by_key.update(new)
        return gone, list(new.values())

    def _anywhere(self, listed: Sequence[T]) -> tuple[list[T], list[T]]:
        key, known = self._key, self._by_key
        self._by_key = {key(item): item for item in listed}
        now = self._by_key
        gone = [item for its_key, item in known.items() if now.get(its_key) is not item]
        new = [item for its_key, item in now.items() if known.get(its_key) is not item]
        return gone, new
