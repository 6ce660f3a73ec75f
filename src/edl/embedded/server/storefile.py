"""The file behind the store: one SQLite table of revisions, opened by one process, checked when it is opened.

In WAL mode with `synchronous=NORMAL` a transaction that COMMIT returned from is in the kernel's hands: a kill -9 of the
process cannot undo it. After a power cut the newest transactions may be missing (whole ones, from the end); the file is
never torn. Every row carries a checksum, so that a damaged byte is found, not served.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

_SCHEMA = """
CREATE TABLE IF NOT EXISTS revision (
    rv INTEGER PRIMARY KEY, resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    deleted INTEGER NOT NULL, body BLOB NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS setting (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
"""
_FORMAT = 1
_WAY_BACK = "`edl up --recover` keeps a copy and restores what can be read"


class StoreError(Exception):
    """The store cannot do its work; the message says which file, what is wrong with it and what to do."""


class StoreDamagedError(StoreError):
    """The file cannot be trusted. `recovery.recover` makes a new one from what can be read."""


class Row(NamedTuple):
    rv: int
    resource: str
    namespace: str
    name: str
    deleted: int
    body: bytes
    crc: int

    @property
    def intact(self) -> bool:
        return isinstance(self.body, bytes) and zlib.crc32(self.body) == self.crc


def row(rv: int, resource: str, namespace: str, name: str, deleted: bool, body: bytes) -> Row:
    return Row(rv, resource, namespace, name, deleted, body, zlib.crc32(body))


class StoreFile:
    """`path` None keeps the table in memory. `compacted` is the revision up to which history was forgotten."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._lock = _lock(path) if path is not None else None
        try:
            self._db = connect(path)
            self.compacted = self._prepare()
        except sqlite3.DatabaseError as error:
            self._unlock()
            raise _unusable(path, error) from error
        except StoreError:
            self._unlock()
            raise

    def _prepare(self) -> int:
        self._db.executescript(_SCHEMA)
        settings = dict(self._db.execute("SELECT name, value FROM setting"))
        if settings.setdefault("format", _FORMAT) != _FORMAT:
            version = settings["format"]
            raise StoreError(
                f"{self.path}: written by another version of edl (format {version}); move the file away to start afresh"
            )
        for (problem,) in self._db.execute("PRAGMA quick_check(1)"):
            if problem != "ok":
                raise StoreDamagedError(f"{self.path}: the file is damaged ({problem}); {_WAY_BACK}")
        # Only where it is missing: a file that turns out to be damaged is left as it was found.
        self._db.execute("INSERT OR IGNORE INTO setting VALUES ('format', ?)", (_FORMAT,))
        return int(settings.get("compacted", 0))

    def rows(self) -> Iterator[Row]:
        """Every revision, oldest first."""
        try:
            for values in self._db.execute("SELECT * FROM revision ORDER BY rv"):
                found = Row(*values)
                if not found.intact:
                    what = f"revision {found.rv} ({found.resource} {found.namespace}/{found.name})"
                    raise StoreDamagedError(f"{self.path}: {what} does not match its checksum; {_WAY_BACK}")
                yield found
        except sqlite3.DatabaseError as error:
            raise _unusable(self.path, error) from error

    def write(self, rows: Sequence[Row], *, garbage: Sequence[int], compacted: int) -> None:
        """One transaction: all of it is durable when this returns, none of it when it raises StoreError."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("INSERT INTO revision VALUES (?,?,?,?,?,?,?)", rows)
            if garbage:
                self._db.executemany("DELETE FROM revision WHERE rv=?", [(rv,) for rv in garbage])
            if garbage or compacted != self.compacted:
                self._db.execute("REPLACE INTO setting VALUES ('compacted', ?)", (compacted,))
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise StoreError(f"{self.path}: nothing was written: {error}. {_advice(error)}") from error
        self.compacted = compacted

    def fold_log(self) -> None:
        """Fold the write-ahead log into the file. This is where SQLite waits for the disk: call it from a thread."""
        if self.path is not None:
            db = connect(self.path)
            try:
                db.execute("PRAGMA wal_checkpoint(PASSIVE)")
            finally:
                db.close()

    def close(self) -> None:
        self._db.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()


def _lock(path: Path) -> BinaryIO:
    """Keep the store to one process: two would each believe their own memory. The kernel forgets it with the
    process."""
    for name in (f"{path}.lock", path):
        os.close(os.open(name, os.O_RDONLY | os.O_CREAT, 0o600))  # the store holds secrets: ours alone to read
    file = Path(f"{path}.lock").open("ab")  # noqa: SIM115 - open as long as the store is
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise StoreError(f"{path}: another process uses this store; stop it first") from None
    return file


def connect(path: Path | None) -> sqlite3.Connection:
    db = sqlite3.connect(path if path is not None else ":memory:", isolation_level=None, timeout=5)
    try:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")
        db.execute("PRAGMA wal_autocheckpoint=0")
    except sqlite3.Error:
        db.close()
        raise
    return db


def _advice(error: sqlite3.Error) -> str:
    if "full" in str(error):
        return "Free some space on that disk; reading goes on, and writing will as soon as there is room"
    return "Reading goes on; see that the file and its directory can be written"


def _unusable(path: Path | None, error: sqlite3.DatabaseError) -> StoreError:
    if isinstance(error, sqlite3.OperationalError):
        return StoreError(f"{path}: cannot be opened: {error}; see that the file and its directory can be written")
    return StoreDamagedError(f"{path}: the file is damaged ({error}); {_WAY_BACK}")
