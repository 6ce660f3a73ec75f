"""The store behind an informer: one version of each object, never replaced by an older one.

Pure: no I/O and no clock. It takes objects in any order (pages of lists, events, replays of either) and returns the
changes (old, new) that they cause: (None, x) appeared, (x, None) went, (x, y) changed. Versions are compared as
integers, which Kubernetes guarantees within one resource. Other threads may look things up; the loop alone writes.
"""

from collections.abc import Hashable, Mapping, Sequence
from sys import intern
from typing import Any, Generic, TypeVar

import msgspec

from edl.kube.cache.indexes import Index, Indexes
from edl.kube.cache.objects import Key, Object, key_of
from edl.kube.cache.partial_decoding import PartialDecoder

T = TypeVar("T", bound=Object)
Change = tuple[T | None, T | None]
TOMBSTONES = 10_000


class _Entry(msgspec.Struct, Generic[T], gc=False):
    item: T
    version: int
    digest: int | None
    """The hash that `PartialDecoder.complete` returned for it."""
    list: int
    """The last list that it was in, or that it came after."""


class Store(Generic[T]):
    """`indexes` are read with `by`. With `decoder`, partial objects are put in; what comes out is whole."""

    def __init__(self, indexes: Mapping[str, Index] | None = None, decoder: PartialDecoder[T] | None = None) -> None:
        self.version = 0
        """The newest version of the whole collection that we know completely: a watch resumes from here."""
        self._known: dict[Key, _Entry[T]] = {}
        self._list = 0
        self._indexes = Indexes(indexes or {})
        self._complete = None if decoder is None else decoder.complete
        self._tombstones: dict[Key, int] = {}
        """Deleted since the last list, at this version: a late event must not bring them back."""

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: Key) -> T | None:
        known = self._known.get(key)
        return None if known is None else known.item

    def all(self) -> list[T]:
        return [known.item for known in list(self._known.values())]  # `list` copies at one stroke: the loop may write

    def by(self, index: str, value: Hashable) -> list[T]:
        return [known.item for key in self._indexes.keys(index, value) if (known := self._known.get(key)) is not None]

    def upsert(self, item: Any, *, restored: bool = False) -> Sequence[Change[T]]:
        """An object as it was at its version. Older than what is known, or known to be gone by then: nothing changes.

        `restored` (a server restored from a backup has begun to count again) takes any version but the very same.
        msgspec.ValidationError: the object does not fit its type, and nothing changes either.
        """
        meta = item.metadata
        key = meta.namespace, meta.name
        version = int(meta.resource_version)
        known = self._known.get(key)
        if known is None:
            if self._tombstones and not restored and version <= self._tombstones.get(key, -1):
                return ()
            key = intern(meta.namespace), meta.name
            digest = None if self._complete is None else self._complete(item, None, None)
            self._known[key] = _Entry(item, version, digest, self._list)
            self._indexes.add(key, item)
            return ((None, item),)
        known.list = self._list
        if version == known.version or (version < known.version and not restored):
            return ()
        old = known.item
        digest = None if self._complete is None else self._complete(item, old, known.digest)
        self._indexes.update(key, old, item, same_spec=digest is not None and digest == known.digest)
        known.item, known.version, known.digest = item, version, digest
        if old.metadata.uid != meta.uid:  # another object took the name: two changes, so that owners of both hear
            return ((old, None), (None, item))
        return ((old, item),)

    def remove(self, key: Key, uid: str, version: int) -> tuple[Change[T], ...]:
        """The object of this uid was gone at this version. Leaves a newer object of the same name alone."""
        known = self._known.get(key)
        if known is None:
            self._add_tombstone(key, version)
            return ()
        old = known.item
        if old.metadata.uid != uid and version <= known.version:
            return ()
        self._add_tombstone(key, max(version, known.version))
        self._drop(key, old)
        return ((old, None),)

    def begin_list(self) -> None:
        """Begins a list: `upsert` each of its objects (`mark_listed` one that cannot be read), then `complete_list`."""
        self._list += 1

    def mark_listed(self, key: Key) -> None:
        known = self._known.get(key)
        if known is not None:
            known.list = self._list

    def complete_list(self, version: int) -> list[Change[T]]:
        """Ends a list: what is known but was not in it is gone; the store is now complete as of `version`."""
        gone = [(key, known.item) for key, known in self._known.items() if known.list != self._list]
        for key, old in gone:
            self._drop(key, old)
        self._tombstones.clear()
        self.version = version
        return [(old, None) for _, old in gone]

    def _add_tombstone(self, key: Key, version: int) -> None:
        if len(self._tombstones) >= TOMBSTONES:
            # The oldest goes: replays reach back seconds, not thousands of deletions.
            del self._tombstones[next(iter(self._tombstones))]
        self._tombstones[key] = max(version, self._tombstones.pop(key, -1))

    def _drop(self, key: Key, old: T) -> None:
        del self._known[key]
        self._indexes.remove(key, old)

    def validate(self) -> None:
        """Invariants, for tests: indexes hold exactly what the objects say, no tombstone is as new as an object."""
        for key, known in self._known.items():
            assert key == key_of(known.item)
            assert known.version == int(known.item.metadata.resource_version)
            assert self._tombstones.get(key, -1) < known.version
        self._indexes.validate({key: known.item for key, known in self._known.items()})
