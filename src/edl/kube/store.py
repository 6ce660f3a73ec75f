"""The cache behind an informer: what we know of the cluster, one version per object, never an older one than before.

Pure: no I/O and no clock. It takes facts in any order (pages of lists, events, replays of either) and answers with the
changes (old, new) that they make: (None, x) appeared, (x, None) went, (x, y) changed. Versions are compared as
integers, which Kubernetes guarantees within one resource. Other threads may look things up; the loop alone writes.
"""

import logging
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from .fields import Fields, Index
from .objects import Key, Object, key_of, name_of

log = logging.getLogger(__name__)
T = TypeVar("T", bound=Object)
Change = tuple[T | None, T | None]
TOMBSTONES = 10_000


class Store(Generic[T]):
    """`indexes` are read with `by`; `shared` are further paths of attributes that many objects have in common."""

    def __init__(self, indexes: Mapping[str, Index] | None = None, shared: Sequence[str] = ()) -> None:
        self.version = 0
        """The newest version of the whole collection that we know completely: a watch resumes from here."""
        self._objects: dict[Key, T] = {}
        self._fields = Fields((*(index.reads for index in (indexes or {}).values()), *shared))
        self._indexes = {
            name: _Buckets(name, index, self._fields.paths.index(index.reads))
            for name, index in (indexes or {}).items()
        }
        self._gone: dict[Key, int] = {}  # deleted since the last list -> version: a late event must not bring it back

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: Key) -> T | None:
        return self._objects.get(key)

    def all(self) -> list[T]:
        return list(self._objects.values())

    def by(self, index: str, value: Hashable) -> list[T]:
        keys = tuple(self._indexes[index].buckets.get(value, ()))  # a copy at one stroke: the loop may write meanwhile
        return [item for key in keys if (item := self._objects.get(key)) is not None]

    def upsert(self, item: T, *, anew: bool = False) -> Sequence[Change[T]]:
        """An object as it was at its version. Older than what is known, or known to be gone by then: nothing changes.

        `anew` (a server restored from a backup has begun to count again) takes any version but the very same.
        """
        meta = item.metadata
        key = meta.namespace, meta.name
        version = int(meta.resource_version)
        old = self._objects.get(key)
        if old is None:
            if self._gone and not anew and version <= self._gone.get(key, -1):
                return ()
            self._put(key, None, item)
            return ((None, item),)
        known = int(old.metadata.resource_version)
        if version == known or (version < known and not anew):
            return ()
        self._put(key, old, item)
        if old.metadata.uid != meta.uid:  # another object took the name: two changes, so that owners of both hear
            return ((old, None), (None, item))
        return ((old, item),)

    def remove(self, key: Key, uid: str, version: int) -> tuple[Change[T], ...]:
        """The object of this uid was gone at this version. Says nothing about a younger bearer of the same name."""
        old = self._objects.get(key)
        if old is None:
            self._bury(key, version)
            return ()
        known = int(old.metadata.resource_version)
        if old.metadata.uid != uid and version <= known:
            return ()
        self._bury(key, max(version, known))
        self._drop(key, old)
        return ((old, None),)

    def complete(self, version: int, listed: Collection[Key]) -> Iterator[Change[T]]:
        """Ends a list: what is known but was not listed is gone; the store is now complete as of `version`."""
        for key, old in [(key, item) for key, item in self._objects.items() if key not in listed]:
            self._drop(key, old)
            yield old, None
        self._gone.clear()
        self.version = version

    def _bury(self, key: Key, version: int) -> None:
        if len(self._gone) >= TOMBSTONES:
            del self._gone[next(iter(self._gone))]  # the oldest: replays reach back seconds, not thousands of deletions
        self._gone[key] = max(version, self._gone.pop(key, -1))

    def _put(self, key: Key, old: T | None, new: T) -> None:
        fields = self._fields
        try:
            after, before = fields.quick(new), None if old is None else fields.quick(old)
        except AttributeError:
            after, before = fields.read(new), None if old is None else fields.read(old)
        if before == after:  # nearly always, when there is an old one
            fields.share(new, before)
        else:
            after = fields.pooled(after)
            fields.share(new, after)
            for index in self._indexes.values():
                if before is not None:
                    index.leave(key, before)
                index.enter(key, after)
        self._objects[key] = new

    def _drop(self, key: Key, old: T) -> None:
        del self._objects[key]
        values = self._fields.read(old)
        for index in self._indexes.values():
            index.leave(key, values)

    def validate(self) -> None:
        """Every invariant, for tests: indexes hold exactly what the objects say, nothing is both known and gone."""
        for key, item in self._objects.items():
            assert key == key_of(item)
            assert self._gone.get(key, -1) < int(item.metadata.resource_version)
        for index in self._indexes.values():
            wanted: dict[Hashable, dict[Key, None]] = {}
            for key, item in self._objects.items():
                for value in index.values(key, self._fields.read(item)):
                    wanted.setdefault(value, {})[key] = None
            assert index.buckets == wanted, f"index {index.name!r} differs from the objects"


class _Buckets:
    """The keys of the objects for each value of one index; the index reads the field at `place`."""

    def __init__(self, name: str, index: Index, place: int) -> None:
        self.name, self._index, self._place = name, index, place
        self.buckets: dict[Hashable, dict[Key, None]] = {}  # dicts, as sets have no order and runs would differ

    def values(self, key: Key, fields: tuple[Any, ...]) -> Sequence[Hashable]:
        field = fields[self._place]
        try:
            return () if field is None else self._index.values(field)
        except Exception:  # the function is the caller's: one odd object must not end the informer
            log.exception("index %r failed for %s; the object is left out of it", self.name, name_of(key))
            return ()

    def enter(self, key: Key, fields: tuple[Any, ...]) -> None:
        for value in self.values(key, fields):
            bucket = self.buckets.get(value)
            if bucket is None:
                self.buckets[value] = {key: None}
            else:
                bucket[key] = None

    def leave(self, key: Key, fields: tuple[Any, ...]) -> None:
        for value in self.values(key, fields):
            bucket = self.buckets.get(value)
            if bucket is not None:
                bucket.pop(key, None)
                if not bucket:
                    del self.buckets[value]
