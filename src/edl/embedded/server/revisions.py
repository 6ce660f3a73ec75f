"""What the store keeps of each write, and how much of the past: objects as of a revision, changes, and the history.

History is the newest changes without a gap. What falls out of it is forgotten, and rows of the file that nobody can ask
for any more become garbage, to go with the next transaction, so that steady load pays a steady price.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

Key = tuple[str, str]
"""(namespace, name); the namespace of a cluster-wide object is empty."""


class CompactedError(Exception):
    """The revision asked for is older than the history that is kept."""


class Entry:
    """One object as of one revision. `decoded` is for the server to keep what it reads again and again."""

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


@dataclass(frozen=True, slots=True)
class Limits:
    """How much history is kept: whichever bound is reached first."""

    changes: int = 10_000
    body_bytes: int = 32 << 20


class History:
    """`compacted`: after this revision the history is complete; at or before it, nothing is promised."""

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
        """Back to its limits."""
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
        """Revisions whose rows nobody can ask for any more."""
        return self._garbage

    def swept(self) -> None:
        """The garbage is out of the file."""
        self._garbage = []
