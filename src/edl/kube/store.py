"""The cache behind an informer: what we know of the cluster, one version per object, never an older one than before.

Pure: no I/O and no clock. It takes facts in any order (pages of lists, events, replays of either) and answers with the
changes (old, new) that they make: (None, x) appeared, (x, None) went, (x, y) changed. Versions are compared as
integers, which Kubernetes guarantees within one resource. Other threads may look things up; the loop alone writes.
"""

from collections.abc import Hashable, Mapping, Sequence
from sys import intern
from typing import Any, Generic, TypeVar

import msgspec

from .fields import Index, Indexes
from .objects import Key, Object, key_of
from .sketches import Sketches

T = TypeVar("T", bound=Object)
Change = tuple[T | None, T | None]
TOMBSTONES = 10_000


class _Known(msgspec.Struct, Generic[T], gc=False):
    item: T
    version: int
    digest: int | None
    """What `Sketches.complete` said of it."""
    list: int
    """The last list that it was in, or that it came after."""


class Store(Generic[T]):
    """`indexes` are read with `by`. With `sketches`, what is put in are sketches; what comes out is whole."""

    def __init__(self, indexes: Mapping[str, Index] | None = None, sketches: Sketches[T] | None = None) -> None:
        self.version = 0
        """The newest version of the whole collection that we know completely: a watch resumes from here."""
        self._known: dict[Key, _Known[T]] = {}
        self._list = 0
        self._indexes = Indexes(indexes or {})
        self._complete = None if sketches is None else sketches.complete
        self._gone: dict[Key, int] = {}  # deleted since the last list -> version: a late event must not bring it back

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: Key) -> T | None:
        known = self._known.get(key)
        return None if known is None else known.item

    def all(self) -> list[T]:
        return [known.item for known in list(self._known.values())]  # `list` copies at one stroke: the loop may write

    def by(self, index: str, value: Hashable) -> list[T]:
        return [known.item for key in self._indexes.keys(index, value) if (known := self._known.get(key)) is not None]

    def upsert(self, item: Any, *, anew: bool = False) -> Sequence[Change[T]]:
        """An object as it was at its version. Older than what is known, or known to be gone by then: nothing changes.

        `anew` (a server restored from a backup has begun to count again) takes any version but the very same.
        msgspec.ValidationError: the sketch does not fit the type, and nothing changes either.
        """
        meta = item.metadata
        key = meta.namespace, meta.name
        version = int(meta.resource_version)
        known = self._known.get(key)
        if known is None:
            if self._gone and not anew and version <= self._gone.get(key, -1):
                return ()
            key = intern(meta.namespace), meta.name
            digest = None if self._complete is None else self._complete(item, None, None)
            self._known[key] = _Known(item, version, digest, self._list)
            self._indexes.enter(key, item)
            return ((None, item),)
        known.list = self._list
        if version == known.version or (version < known.version and not anew):
            return ()
        old = known.item
        digest = None if self._complete is None else self._complete(item, old, known.digest)
        self._indexes.move(key, old, item, settled=digest is not None and digest == known.digest)
        known.item, known.version, known.digest = item, version, digest
        if old.metadata.uid != meta.uid:  # another object took the name: two changes, so that owners of both hear
            return ((old, None), (None, item))
        return ((old, item),)

    def remove(self, key: Key, uid: str, version: int) -> tuple[Change[T], ...]:
        """The object of this uid was gone at this version. Says nothing about a younger bearer of the same name."""
        known = self._known.get(key)
        if known is None:
            self._bury(key, version)
            return ()
        old = known.item
        if old.metadata.uid != uid and version <= known.version:
            return ()
        self._bury(key, max(version, known.version))
        self._drop(key, old)
        return ((old, None),)

    def begin(self) -> None:
        """Begins a list: what it has is told by `upsert`, or by `keep` if it cannot be read; then `complete`."""
        self._list += 1

    def keep(self, key: Key) -> None:
        known = self._known.get(key)
        if known is not None:
            known.list = self._list

    def complete(self, version: int) -> list[Change[T]]:
        """Ends a list: what is known but was not in it is gone; the store is now complete as of `version`."""
        gone = [(key, known.item) for key, known in self._known.items() if known.list != self._list]
        for key, old in gone:
            self._drop(key, old)
        self._gone.clear()
        self.version = version
        return [(old, None) for _, old in gone]

    def _bury(self, key: Key, version: int) -> None:
        if len(self._gone) >= TOMBSTONES:
            del self._gone[next(iter(self._gone))]  # the oldest: replays reach back seconds, not thousands of deletions
        self._gone[key] = max(version, self._gone.pop(key, -1))

    def _drop(self, key: Key, old: T) -> None:
        del self._known[key]
        self._indexes.leave(key, old)

    def validate(self) -> None:
        """Every invariant, for tests: indexes hold exactly what the objects say, nothing is both known and gone."""
        for key, known in self._known.items():
            assert key == key_of(known.item)
            assert known.version == int(known.item.metadata.resource_version)
            assert self._gone.get(key, -1) < known.version
        self._indexes.validate({key: known.item for key, known in self._known.items()})
