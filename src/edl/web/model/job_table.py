"""Rows of all jobs in the order in which they last changed: what is new since a version is found without a scan.

A row is encoded once for all viewers. Pure: no I/O and no clock.
"""

from collections import deque
from collections.abc import Callable, Iterator

import msgspec

from edl.web.types import JobRow

REMEMBERED = 10_000  # jobs that went: who is further behind gets all rows anew
Sees = Callable[[str, str], bool]
"""Whether a viewer sees jobs of a kind in a namespace."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    row: JobRow
    encoded: bytes
    version: int


class JobTable:
    def __init__(self) -> None:
        self.version = 0
        self._rows: dict[str, Entry] = {}  # the one that changed last is last
        self._gone: deque[tuple[int, str]] = deque(maxlen=REMEMBERED)
        self._oldest = 0  # who has seen less than this version may have missed one that went

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: str) -> JobRow | None:
        entry = self._rows.get(key)
        return None if entry is None else entry.row

    def rows(self) -> Iterator[JobRow]:
        return (entry.row for entry in self._rows.values())

    def namespaces(self) -> dict[str, set[str]]:
        """Those in which there are jobs, by kind."""
        found: dict[str, set[str]] = {}
        for entry in self._rows.values():
            found.setdefault(entry.row.kind, set()).add(entry.row.namespace)
        return found

    def put(self, row: JobRow) -> bool:
        """Whether anything that is shown has changed."""
        known = self._rows.get(row.key)
        if known is not None and known.row == row:
            return False
        self._rows.pop(row.key, None)
        self.version += 1
        self._rows[row.key] = Entry(row, msgspec.json.encode(row), self.version)
        return True

    def drop(self, key: str) -> bool:
        if self._rows.pop(key, None) is None:
            return False
        self.version += 1
        if len(self._gone) == self._gone.maxlen:
            self._oldest = self._gone[0][0]
        self._gone.append((self.version, key))
        return True

    def message(self, since: int | None, sees: Sees) -> bytes | None:
        """What a viewer who has seen version `since` (None: nothing) must hear, as JSON of `Jobs`; None: nothing."""
        if since is None or since < self._oldest:
            rows = [entry.encoded for entry in self._rows.values() if sees(entry.row.kind, entry.row.namespace)]
            return _encode(True, rows, [])
        rows = []
        for entry in reversed(self._rows.values()):
            if entry.version <= since:
                break
            if sees(entry.row.kind, entry.row.namespace):
                rows.append(entry.encoded)
        gone = []
        for version, key in reversed(self._gone):
            if version <= since:
                break
            kind, namespace, _ = key.split("/", 2)
            if key not in self._rows and sees(kind, namespace):
                gone.append(key)
        return _encode(False, rows, gone) if rows or gone else None


def _encode(reset: bool, rows: list[bytes], gone: list[str]) -> bytes:
    flag = b"true" if reset else b"false"
    return b'{"reset":%s,"rows":[%s],"gone":%s}' % (flag, b",".join(rows), msgspec.json.encode(gone))
