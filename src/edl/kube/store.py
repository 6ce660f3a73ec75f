"""The cache behind an informer: what we know of the cluster, one version per object, never an older one than before.

Pure: no I/O and no clock. It takes facts in any order (pages of lists, events, replays of either) and answers with the
changes (old, new) that they make: (None, x) appeared, (x, None) went, (x, y) changed. Versions are compared as
integers, which Kubernetes guarantees within one resource. Other threads may look things up; the loop alone writes.
"""

import logging
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from .objects import Key, Object, key_of

log = logging.getLogger(__name__)
T = TypeVar("T", bound=Object)
Index = Callable[[T], Iterable[Hashable]]
Change = tuple[T | None, T | None]
TOMBSTONES = 10_000


class Store(Generic[T]):
    def __init__(self, indexes: Mapping[str, Index[T]] | None = None) -> None:
        self.version = 0
        """The newest version of the whole collection that we know completely: a watch resumes from here."""
        self._objects: dict[Key, T] = {}
        self._functions = dict(indexes or {})
        self._indexes: dict[str, dict[Hashable, dict[Key, T]]] = {name: {} for name in self._functions}
        self._gone: dict[Key, int] = {}  # deleted since the last list -> version: a late event must not bring it back

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, key: Key) -> T | None:
        return self._objects.get(key)

    def all(self) -> list[T]:
        return list(self._objects.values())

    def by(self, index: str, value: Hashable) -> list[T]:
        found = self._indexes[index].get(value)
        return [] if found is None else [*found.values()]

    def upsert(self, item: T, *, anew: bool = False) -> tuple[Change[T], ...]:
        """An object as it was at its version. Older than what is known, or known to be gone by then: nothing changes.

        `anew` (a server restored from a backup has begun to count again) takes any version but the very same.
        """
        key = key_of(item)
        meta = item.metadata
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
        for key in self._objects.keys() - listed:
            old = self._objects[key]
            self._drop(key, old)
            yield old, None
        self._gone.clear()
        self.version = version

    def _bury(self, key: Key, version: int) -> None:
        if len(self._gone) >= TOMBSTONES:
            del self._gone[next(iter(self._gone))]  # the oldest: replays reach back seconds, not thousands of deletions
        self._gone[key] = max(version, self._gone.pop(key, -1))

    def _put(self, key: Key, old: T | None, new: T) -> None:
        self._objects[key] = new
        for name, function in self._functions.items():
            buckets = self._indexes[name]
            values = _values(name, function, new)
            if old is not None:
                self._leave(buckets, key, [value for value in _values(name, function, old) if value not in values])
            for value in values:
                buckets.setdefault(value, {})[key] = new

    def _drop(self, key: Key, old: T) -> None:
        del self._objects[key]
        for name, function in self._functions.items():
            self._leave(self._indexes[name], key, _values(name, function, old))

    @staticmethod
    def _leave(buckets: dict[Hashable, dict[Key, T]], key: Key, values: Iterable[Hashable]) -> None:
        for value in values:
            bucket = buckets[value]
            del bucket[key]
            if not bucket:
                del buckets[value]

    def validate(self) -> None:
        """Every invariant, for tests: indexes hold exactly what the objects say, nothing is both known and gone."""
        for key, item in self._objects.items():
            assert key == key_of(item)
            assert self._gone.get(key, -1) < int(item.metadata.resource_version)
        for name, function in self._functions.items():
            wanted: dict[Hashable, dict[Key, T]] = {}
            for key, item in self._objects.items():
                for value in _values(name, function, item):
                    wanted.setdefault(value, {})[key] = item
            assert self._indexes[name] == wanted, f"index {name!r} differs from the objects"


def _values(name: str, function: Index[T], item: T) -> Collection[Hashable]:
    try:
        values = function(item)
        return values if isinstance(values, tuple) else tuple(values)
    except Exception:  # the index is the caller's code: one odd object must not end the informer
        log.exception("index %r failed for %s; the object is left out of it", name, key_of(item))
        return ()
