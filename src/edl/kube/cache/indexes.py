"""Indexes of cached objects by their owners, a label, their namespace or any attribute."""

import logging
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from edl.kube.cache.objects import Key, Object, name_of

log = logging.getLogger(__name__)
_STABLE = ("metadata.namespace", "metadata.labels", "metadata.owner_references", "spec")


class Index(msgspec.Struct, frozen=True):
    """Finds objects by the attribute at `path`, or by `values(attribute)`. Absent or empty: not at all."""

    path: str
    values: Callable[[Any], Sequence[Hashable]] | None = None

    @property
    def stable(self) -> bool:
        """It reads only what most changes leave as it is (see `partial_decoding`)."""
        return self.path in _STABLE or self.path.startswith("spec.")


by_field = Index
"""By one attribute, such as spec.node_name."""

by_namespace = Index("metadata.namespace")

by_owner = Index("metadata.owner_references", lambda owners: [owner.uid for owner in owners])
"""By the uid of every owner."""


def by_label(label: str) -> Index:
    return Index("metadata.labels", lambda labels: (labels[label],) if label in labels else ())


_Buckets = defaultdict[Hashable, dict[Key, None]]  # value -> keys; no sets: they have no order, and runs would differ
_Entry = tuple[str, Callable[[Any], Any], Callable[[Any], Sequence[Hashable]] | None, _Buckets]


class Indexes:
    """The keys of the objects for each value of each index."""

    def __init__(self, indexes: Mapping[str, Index]) -> None:
        self._entries: dict[str, _Entry] = {
            name: (name, attrgetter(index.path), index.values, defaultdict(dict)) for name, index in indexes.items()
        }
        self._all = list(self._entries.values())
        self._volatile = [self._entries[name] for name, index in indexes.items() if not index.stable]

    def keys(self, index: str, value: Hashable) -> tuple[Key, ...]:
        return tuple(self._entries[index][3].get(value, ()))  # a copy at one stroke: the loop may write meanwhile

    def add(self, key: Key, item: Object) -> None:
        """Part of every object's way through a list, so it calls as little as possible."""
        for name, read, values, buckets in self._all:
            try:
                field = read(item)
                if values is None:
                    if field:
                        buckets[field][key] = None
                elif field is not None:
                    for value in values(field):
                        buckets[value][key] = None
            except Exception as error:
                _log_failure(name, key, error)

    def remove(self, key: Key, item: Object) -> None:
        for entry in self._all:
            _remove_values(entry[3], key, _values(entry, key, item))

    def update(self, key: Key, old: Object, new: Object, *, same_spec: bool) -> None:
        """`same_spec`: labels, owners and spec are those of the old object, so only volatile indexes can change."""
        for entry in self._volatile if same_spec else self._all:
            was, now = _values(entry, key, old), _values(entry, key, new)
            if was != now:
                _remove_values(entry[3], key, was)
                for value in now:
                    entry[3][value][key] = None

    def validate(self, objects: Mapping[Key, Object]) -> None:
        """For tests: they hold exactly what the objects say."""
        expected = Indexes({})
        expected._all = [(*entry[:3], defaultdict(dict)) for entry in self._all]
        for key, item in objects.items():
            expected.add(key, item)
        for entry, wanted in zip(self._all, expected._all, strict=True):
            assert entry[3] == wanted[3], f"index {entry[0]!r} differs from the objects"


def _values(entry: _Entry, key: Key, item: Object) -> Sequence[Hashable]:
    name, read, values, _ = entry
    try:
        field = read(item)
        if values is None:
            return (field,) if field else ()
        return () if field is None else values(field)
    except Exception as error:
        _log_failure(name, key, error)
        return ()


def _log_failure(index: str, key: Key, error: Exception) -> None:
    """Where a part of the path is absent, that is meant. Else a caller's function must not end the informer."""
    if not isinstance(error, AttributeError):
        log.error("index %r failed for %s; the object is left out of it", index, name_of(key), exc_info=error)


def _remove_values(buckets: _Buckets, key: Key, values: Sequence[Hashable]) -> None:
    for value in values:
        bucket = buckets.get(value)
        if bucket is not None:
            bucket.pop(key, None)
            if not bucket:
                del buckets[value]
