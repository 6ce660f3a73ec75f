"""The few attributes by which cached objects are found, or which thousands of them have in common.

Both come from one read: an update that changes none of them needs no index work, and takes over the old values, so that
equal strings, labels and owners exist once. (A decoder makes every string anew; repetition is a quarter of a pod.)
Values are frozen and only equal ones replace each other: nobody can tell the difference but the memory.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import attrgetter
from sys import intern
from typing import Any

import msgspec
from msgspec.structs import force_setattr

COMMON = ("metadata.namespace", "metadata.labels", "metadata.owner_references")
MOST = 1 << 16  # beyond so many different values a field is no good choice: forget them rather than grow


class Index(msgspec.Struct, frozen=True):
    """Finds objects by `values(attribute)`, of the attribute at the path `reads`; not asked where that is absent."""

    reads: str
    values: Callable[[Any], Sequence[Hashable]]


by_owner = Index("metadata.owner_references", lambda owners: [owner.uid for owner in owners])
"""By the uid of every owner."""

by_namespace = Index("metadata.namespace", lambda namespace: (namespace,))


def by_label(label: str) -> Index:
    return Index("metadata.labels", lambda labels: (labels[label],) if label in labels else ())


def by_field(path: str) -> Index:
    """By one attribute, such as spec.node_name; objects where it is empty are left out."""
    return Index(path, lambda value: (value,) if value else ())


class Fields:
    """The attributes at `paths` (COMMON are always among them), read and replaced together."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.paths = tuple(dict.fromkeys((*COMMON, *paths)))
        self.quick: Callable[[Any], tuple[Any, ...]] = attrgetter(*self.paths)
        """`read`, where nothing is absent; else it raises AttributeError."""
        self._each = [attrgetter(path) for path in self.paths]
        parents: dict[str, list[tuple[int, str]]] = {}
        for place, path in enumerate(self.paths):
            parent, _, name = path.rpartition(".")
            parents.setdefault(parent, []).append((place, name))
        self._parents = [(attrgetter(parent) if parent else _itself, found) for parent, found in parents.items()]
        self._pool: dict[Any, Any] = {}

    def read(self, item: Any) -> tuple[Any, ...]:
        """One value per path; None where a part of the path is absent."""
        return tuple(_or_none(read, item) for read in self._each)

    def share(self, item: Any, values: tuple[Any, ...]) -> None:
        """Replaces the item's values by these equal ones."""
        for parent_of, children in self._parents:
            try:
                parent = parent_of(item)
                for place, name in children:
                    value = values[place]
                    if value:
                        force_setattr(parent, name, value)
            except AttributeError:  # absent, or a property that computes what it says: there is nothing to replace
                continue

    def pooled(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """Equal values that others use already."""
        if len(self._pool) > MOST:
            self._pool.clear()
        return tuple(self._one(value) for value in values)

    def _one(self, value: Any) -> Any:
        if type(value) is dict:
            for key, text in value.items():
                if type(text) is str:
                    value[key] = intern(text)
            return value
        try:
            return self._pool.setdefault(value, value)
        except TypeError:  # it cannot be hashed, so it stays as it is
            return value


def _itself(item: Any) -> Any:
    return item


def _or_none(read: Callable[[Any], Any], item: Any) -> Any:
    try:
        return read(item)
    except AttributeError:
        return None
