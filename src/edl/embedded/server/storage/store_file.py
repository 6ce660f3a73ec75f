"""File behind the store: one SQLite table of revisions, opened by one process, checked when it is opened.

In WAL mode with `synchronous=NORMAL` a transaction that COMMIT returned from is in the kernel's hands: a kill -9 of the
process cannot undo it. After a power cut the newest transactions may be missing (whole ones, from the end); the file is
never torn. Every row carries a checksum of its key and its body, and `log_check.py` checks the log, so that a damaged
byte is detected, not served. Callers see `StoreError`, never SQLite's errors.
"""

import fcntl
import os
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from edl.embedded.server.storage.log_check import LogState, check_log

_SCHEMA = """
CREATE TABLE IF NOT EXISTS revision (
    rv INTEGER PRIMARY KEY, resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    deleted INTEGER NOT NULL, body BLOB NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS setting (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
"""
FORMAT = 2
"""2: a row's checksum covers its key. 1: only its body. A file of format 1 is converted when it is opened."""
_WAY_BACK = "`edl up --recover` keeps a copy and restores what can be read"


class StoreError(Exception):
    """The store cannot read or write its file; the message names the file, the problem and the fix."""


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

    def intact(self, version: int) -> bool:
        """Whether the row matches its checksum, by the rule of a format."""
        if not isinstance(self.body, bytes):
            return False
        return self.crc == (zlib.crc32(self.body) if version == 1 else _checksum(*self[:6]))


def row(rv: int, resource: str, namespace: str, name: str, deleted: int, body: bytes) -> Row:
    return Row(rv, resource, namespace, name, deleted, body, _checksum(rv, resource, namespace, name, deleted, body))


def _checksum(rv: int, resource: str, namespace: str, name: str, deleted: int, body: bytes) -> int:
    key = f"{rv}\0{resource}\0{namespace}\0{name}\0{deleted:d}\0"
    return zlib.crc32(body, zlib.crc32(key.encode(errors="surrogatepass")))


class StoreFile:
    """`path` None keeps the table in memory. History up to the revision `compacted` is gone."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._log = f"{path}-wal" if path is not None else ""
        self._lock = _lock(path) if path is not None else None
        try:
            self._check_log()
            self._db = connect(path)
            self.compacted = self._prepare()
        except sqlite3.DatabaseError as error:
            self._unlock()
            raise _unusable(path, error) from error
        except StoreError:
            self._unlock()
            raise

    def _check_log(self) -> None:
        """Before SQLite opens the file: closing it would fold and remove the log, and with it what can be told."""
        state = check_log(Path(self._log)) if self._log else LogState()
        if state.damage:
            lost = f"; {state.lost} acknowledged transactions after it cannot be read" if state.lost else ""
            raise StoreDamagedError(f"{self._log}: the log is damaged ({state.damage}){lost}; {_WAY_BACK}")

    def _prepare(self) -> int:
        self._db.executescript(_SCHEMA)
        settings = dict(self._db.execute("SELECT name, value FROM setting"))
        version = self._version = settings.get("format", FORMAT)
        if not 1 <= version <= FORMAT:
            raise StoreError(
                f"{self.path}: written by another version of edl (format {version}); move the file away to start afresh"
            )
        for (problem,) in self._db.execute("PRAGMA quick_check(1)"):
            if problem != "ok":
                raise StoreDamagedError(f"{self.path}: the file is damaged ({problem}); {_WAY_BACK}")
        # Only where it is missing: a file that turns out to be damaged is left as it was found.
        self._db.execute("INSERT OR IGNORE INTO setting VALUES ('format', ?)", (FORMAT,))
        return int(settings.get("compacted", 0))

    def rows(self) -> Iterator[Row]:
        """Every revision, oldest first."""
        try:
            for values in self._db.execute("SELECT * FROM revision ORDER BY rv"):
                found = Row(*values)
                if not found.intact(self._version):
                    what = f"revision {found.rv} ({found.resource} {found.namespace}/{found.name})"
                    raise StoreDamagedError(f"{self.path}: {what} does not match its checksum; {_WAY_BACK}")
                yield found
        except sqlite3.DatabaseError as error:
            raise _unusable(self.path, error) from error

    def convert(self) -> None:
        """Writes the checksums of the present format, once every row was found intact by the rule of the former."""
        if self._version == FORMAT:
            return
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.create_function("row_checksum", 6, _checksum, deterministic=True)
            self._db.execute("UPDATE revision SET crc = row_checksum(rv, resource, namespace, name, deleted, body)")
            self._db.execute("REPLACE INTO setting VALUES ('format', ?)", (FORMAT,))
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise StoreError(f"{self.path}: cannot be converted: {error}. {_advice(error)}") from error
        self._version = FORMAT

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

    @property
    def log_bytes(self) -> int:
        """The size of the write-ahead log."""
        try:
            return os.stat(self._log).st_size if self._log else 0
        except FileNotFoundError:
            return 0

    def checkpoint(self) -> None:
        """Folds the write-ahead log into the file while writing goes on. What is written meanwhile stays in the log,
        which therefore does not become shorter. SQLite waits for the disk here: call it from a thread.
        """
        self._checkpoint("PASSIVE", patience=0)

    def empty_log(self) -> None:
        """Folds the rest of the log and truncates it. Waits for the disk, and nothing may be written meanwhile."""
        if self._checkpoint("TRUNCATE", patience=0.2):
            raise StoreError("another process reads it")

    def _checkpoint(self, mode: str, *, patience: float) -> bool:
        """True when readers kept SQLite from finishing for `patience` seconds."""
        if self.path is None:
            return False
        try:
            db = connect(self.path, patience=patience)
            try:
                busy, _, _ = db.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
            finally:
                db.close()
        except sqlite3.Error as error:
            raise StoreError(str(error)) from error
        return bool(busy)

    def close(self) -> None:
        self._db.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.close()


def _lock(path: Path) -> BinaryIO:
    """Locks the store for one process: two would each trust their own memory. The kernel drops the lock with the
    process.
    """
    for name in (f"{path}.lock", path):
        os.close(os.open(name, os.O_RDONLY | os.O_CREAT, 0o600))  # the store holds secrets: ours alone to read
    file = Path(f"{path}.lock").open("ab")  # noqa: SIM115 - open as long as the store is
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise StoreError(f"{path}: another process uses this store; stop it first") from None
    return file


def connect(path: Path | None, *, patience: float = 5) -> sqlite3.Connection:
    db = sqlite3.connect(path if path is not None else ":memory:", isolation_level=None, timeout=patience)
    try:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")
        db.execute("PRAGMA wal_autocheckpoint=0")
        db.execute("PRAGMA journal_size_limit=0")  # a log that begins anew is cut, so that nothing old stands behind it
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
