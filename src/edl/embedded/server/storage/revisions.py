"""In-memory records of the store: objects as of a revision, changes, and the bounded history.

History is the newest changes without a gap. Rows of the file that no reader can ask for any more become garbage and are
deleted by the next transaction, so that the cost under steady load is steady.
"""

from collections import deque
from typing import Any

import msgspec

Key = tuple[str, str]
"""(namespace, name); the namespace of a cluster-wide object is empty."""


class CompactedError(Exception):
    """The revision is older than the history."""


class Entry:
    """One object as of one revision. `decoded` caches the decoded body of objects that are read often."""

    __slots__ = ("body", "decoded", "name", "namespace", "rv")

    def __init__(self, namespace: str, name: str, rv: int, body: bytes) -> None:
        self.namespace = namespace
        self.name = name
        self.rv = rv
        self.body = body
        self.decoded: Any = None


class Change:
    """One committed write: `old` is None for a creation, `deleted` marks a deletion, whose `entry` is the last
    state."""

    __slots__ = ("deleted", "encoded", "entry", "old", "resource", "rv")

    def __init__(self, resource: str, entry: Entry, old: Entry | None, deleted: bool) -> None:
        self.resource = resource
        self.rv = entry.rv
        self.entry = entry
        self.old = old
        self.deleted = deleted
        self.encoded: dict[object, bytes] | None = {}
        """While it is handed out, by format: a change is encoded once, however many watch it."""


class Limits(msgspec.Struct, frozen=True):
    """Bounds of the history; the first one reached applies."""

    changes: int = 10_000
    body_bytes: int = 32 << 20


class History:
    """Complete after the revision `compacted`; at or before it, nothing is promised."""

    def __init__(self, limits: Limits, compacted: int) -> None:
        self.compacted = compacted
        self._limits = limits
        self._changes: deque[Change] = deque()
        self._bytes = 0
        self._garbage: list[int] = []

    def add(self, change: Change) -> None:
        self._changes.append(change)
        self._bytes += len(change.entry.body)

    def since(self, rv: int) -> list[Change]:
        """Every change after `rv`, oldest first."""
        if rv < self.compacted:
            raise CompactedError(rv)
        newer: list[Change] = []
        for change in reversed(self._changes):
            if change.rv <= rv:
                break
            newer.append(change)
        newer.reverse()
        return newer

    def trim(self) -> None:
        """Drops the oldest changes beyond the limits."""
        while len(self._changes) > self._limits.changes or (
            self._bytes > self._limits.body_bytes and len(self._changes) > 1
        ):
            self._forget(self._changes.popleft())

    def forget_up_to(self, rv: int) -> None:
        while self._changes and self._changes[0].rv <= rv:
            self._forget(self._changes.popleft())
        self.compacted = max(self.compacted, rv)

    def _forget(self, change: Change) -> None:
        self._bytes -= len(change.entry.body)
        self.compacted = change.rv
        if change.old is not None:
            self._garbage.append(change.old.rv)
        if change.deleted:
            self._garbage.append(change.rv)

    @property
    def garbage(self) -> list[int]:
        """Revisions whose rows no reader can ask for any more."""
        return self._garbage

    def swept(self) -> None:
        """The garbage was deleted from the file."""
        self._garbage = []
