"""Finding cached objects by what they say: their owners, a label, their namespace, any attribute."""

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from .objects import Key, Object, name_of

log = logging.getLogger(__name__)
_SETTLED = ("metadata.namespace", "metadata.labels", "metadata.owner_references", "spec")


class Index(msgspec.Struct, frozen=True):
    """Finds objects by `values(attribute)`, of the attribute at the path `reads`; not asked where that is absent."""

    reads: str
    values: Callable[[Any], Sequence[Hashable]]

    @property
    def settled(self) -> bool:
        """It cannot have changed where an object has the very labels, owners and spec of before (see `sketches`)."""
        return self.reads in _SETTLED or self.reads.startswith("spec.")


by_owner = Index("metadata.owner_references", lambda owners: [owner.uid for owner in owners])
"""By the uid of every owner."""

by_namespace = Index("metadata.namespace", lambda namespace: (namespace,))


def by_label(label: str) -> Index:
    return Index("metadata.labels", lambda labels: (labels[label],) if label in labels else ())


def by_field(path: str) -> Index:
    """By one attribute, such as spec.node_name; objects where it is empty are left out."""
    return Index(path, lambda value: (value,) if value else ())


_Buckets = dict[Hashable, dict[Key, None]]  # value -> keys; no sets, as they have no order and runs would differ
_Entry = tuple[str, Callable[[Any], Any], Callable[[Any], Sequence[Hashable]], _Buckets]


class Indexes:
    """The keys of the objects for each value of each index."""

    def __init__(self, indexes: Mapping[str, Index]) -> None:
        self._entries: dict[str, _Entry] = {
            name: (name, attrgetter(index.reads), index.values, {}) for name, index in indexes.items()
        }
        self._all = list(self._entries.values())
        self._unsettled = [self._entries[name] for name, index in indexes.items() if not index.settled]

    def keys(self, index: str, value: Hashable) -> tuple[Key, ...]:
        return tuple(self._entries[index][3].get(value, ()))  # a copy at one stroke: the loop may write meanwhile

    def enter(self, key: Key, item: Object) -> None:
        for entry in self._all:
            _enter(entry[3], key, _values(entry, key, item))

    def leave(self, key: Key, item: Object) -> None:
        for entry in self._all:
            _leave(entry[3], key, _values(entry, key, item))

    def move(self, key: Key, old: Object, new: Object) -> None:
        before, after = old.metadata, new.metadata
        settled = after.labels is before.labels and after.owner_references is before.owner_references
        same = settled and getattr(new, "spec", None) is getattr(old, "spec", None)
        for entry in self._unsettled if same else self._all:
            was, now = _values(entry, key, old), _values(entry, key, new)
            if was != now:
                _leave(entry[3], key, was)
                _enter(entry[3], key, now)

    def validate(self, objects: Mapping[Key, Object]) -> None:
        """For tests: they hold exactly what the objects say."""
        for entry in self._all:
            expected: _Buckets = {}
            for key, item in objects.items():
                _enter(expected, key, _values(entry, key, item))
            assert entry[3] == expected, f"index {entry[0]!r} differs from the objects"


def _values(entry: _Entry, key: Key, item: Object) -> Sequence[Hashable]:
    name, read, values, _ = entry
    try:
        field = read(item)
        return () if field is None else values(field)
    except AttributeError:  # a part of the path is absent
        return ()
    except Exception:  # the function is the caller's: one odd object must not end the informer
        log.exception("index %r failed for %s; the object is left out of it", name, name_of(key))
        return ()


def _enter(buckets: _Buckets, key: Key, values: Sequence[Hashable]) -> None:
    for value in values:
        bucket = buckets.get(value)
        if bucket is None:
            buckets[value] = {key: None}
        else:
            bucket[key] = None


def _leave(buckets: _Buckets, key: Key, values: Sequence[Hashable]) -> None:
    for value in values:
        bucket = buckets.get(value)
        if bucket is not None:
            bucket.pop(key, None)
            if not bucket:
                del buckets[value]
