"""The durable, versioned store behind the API server: every write is one row of one append-only SQLite table.

A write gets the next number of one global counter, as in etcd, and is a row `(rv, resource, namespace, name, body)`;
a deletion is a row too. The present state, the history that feeds watches, and what a list at an older revision saw
are all readings of that table, and all of them are kept in memory: SQLite is read once, when the store opens.

Writers stage (`put`, `remove`) and then await `committed()`. Everything staged within one turn of the event loop
becomes one transaction, so many concurrent requests share its cost. Readers see only what was committed; writers also
see what is staged, so that two writes of one turn cannot both win. In WAL mode with `synchronous=NORMAL` a
transaction that COMMIT returned from is in the kernel's hands: a kill -9 of the process cannot undo it. After a power
cut the newest transactions may be missing (whole ones, from the end), and never is the file torn.

The store knows nothing of Kubernetes beyond keys and revisions; bodies are opaque bytes.
"""

from __future__ import annotations

import asyncio
import sqlite3
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sortedcontainers import SortedDict

_SCHEMA = """
CREATE TABLE IF NOT EXISTS revision (
    rv INTEGER PRIMARY KEY, resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    deleted INTEGER NOT NULL, body BLOB NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS setting (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
"""
_FORMAT = 1
_WAL_PAGES = 2000

Key = tuple[str, str]
"""(namespace, name); the namespace of a cluster-wide object is empty."""


class StoreError(Exception):
    """The store cannot do its work; the message says which file, what is wrong with it and what to do."""


class StoreDamagedError(StoreError):
    """The file cannot be trusted. `edl.embedded.server.recovery` makes a new one from what can be read."""


class CompactedError(Exception):
    """The revision asked for is older than the history that is kept."""


class Entry:
    """One object as of one revision. `parsed` is scratch space for readers that decode a body more than once."""

    __slots__ = ("body", "name", "namespace", "parsed", "rv")

    def __init__(self, namespace: str, name: str, rv: int, body: bytes) -> None:
        self.namespace = namespace
        self.name = name
        self.rv = rv
        self.body = body
        self.parsed: Any = None


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
        self.encoded: dict[object, bytes] = {}  # by format: each change is encoded once, however many watch it


@dataclass(frozen=True, slots=True)
class Limits:
    """How much history is kept: whichever bound is reached first."""

    changes: int = 10_000
    body_bytes: int = 32 << 20


Listener = Callable[[list[Change]], None]


class Store:
    """Open with `Store(path)`; `path=None` keeps everything in memory (for simulations and tests)."""

    def __init__(self, path: Path | None, *, limits: Limits = Limits()) -> None:  # noqa: B008 (frozen)
        self.path = path
        self._limits = limits
        self._live: dict[str, SortedDict] = {}
        self._staged: dict[tuple[str, Key], Change] = {}
        self._batch: list[Change] = []
        self._done: asyncio.Future[None] | None = None
        self._history: deque[Change] = deque()
        self._history_bytes = 0
        self._garbage: list[int] = []
        self._listeners: dict[str, list[Listener]] = {}
        self._checkpoint: asyncio.Task[None] | None = None
        self._rows_since_checkpoint = 0
        self._compacted = 0
        self._rv = 0
        self._db = self._open()
        self._next = self._rv

    # -- reading
    # ------------------------------------------------------------------------------------------------------------

    @property
    def rv(self) -> int:
        """The newest committed revision."""
        return self._rv

    @property
    def compacted(self) -> int:
        """History after this revision is complete; at or before it, nothing is promised."""
        return self._compacted

    def get(self, resource: str, key: Key) -> Entry | None:
        live = self._live.get(resource)
        return live.get(key) if live is not None else None

    def entries(self, resource: str, namespace: str = "", *, after: Key | None = None) -> Iterator[Entry]:
        """The committed entries in key order, of one namespace or of all, after a key when a page is continued."""
        live = self._live.get(resource)
        if live is None:
            return iter(())
        return _between(live, namespace, after)

    def entries_at(self, resource: str, rv: int, namespace: str = "", *, after: Key | None = None) -> Iterator[Entry]:
        """What `entries` returned when `rv` was the newest revision. Raises `CompactedError` when that is forgotten."""
        if rv >= self._rv:
            return self.entries(resource, namespace, after=after)
        then = SortedDict(self._live.get(resource, {}))
        for change in reversed(self.since(rv)):
            if change.resource == resource:
                _undo(then, change)
        return _between(then, namespace, after)

    def since(self, rv: int) -> list[Change]:
        """Every change after `rv`, oldest first. Raises `CompactedError` when some of them are forgotten."""
        if rv < self._compacted:
            raise CompactedError(rv)
        if rv >= self._rv:
            return []
        newer: list[Change] = []
        for change in reversed(self._history):
            if change.rv <= rv:
                break
            newer.append(change)
        newer.reverse()
        return newer

    def count(self, resource: str) -> int:
        return len(self._live.get(resource, ()))

    def resources(self) -> list[str]:
        return [resource for resource, live in self._live.items() if live]

    def listen(self, resource: str, listener: Listener) -> Callable[[], None]:
        """Call `listener` with the changes of each commit that touches `resource`; the result ends it."""
        listeners = self._listeners.setdefault(resource, [])
        listeners.append(listener)

        def stop() -> None:
            if listener in listeners:
                listeners.remove(listener)

        return stop

    # -- writing
    # ------------------------------------------------------------------------------------------------------------

    def latest(self, resource: str, key: Key) -> Entry | None:
        """As `get`, but with what is staged: what a writer must build upon."""
        staged = self._staged.get((resource, key))
        if staged is not None:
            return None if staged.deleted else staged.entry
        return self.get(resource, key)

    def staged(self, resource: str) -> list[Change]:
        """What this turn has staged for one resource: for admission that counts objects (quota)."""
        return [change for change in self._batch if change.resource == resource]

    @property
    def next_rv(self) -> int:
        """The revision that the next staged write will get; it may be written into its body."""
        return self._next + 1

    def put(self, resource: str, key: Key, body: bytes) -> Entry:
        return self._stage(resource, key, body, deleted=False)

    def remove(self, resource: str, key: Key, body: bytes) -> Entry:
        """Stage a deletion; `body` is the object's last state."""
        return self._stage(resource, key, body, deleted=True)

    def _stage(self, resource: str, key: Key, body: bytes, *, deleted: bool) -> Entry:
        old = self.latest(resource, key)
        self._next += 1
        entry = Entry(key[0], key[1], self._next, body)
        change = Change(resource, entry, old, deleted)
        self._staged[resource, key] = change
        self._batch.append(change)
        if self._done is None:
            loop = asyncio.get_running_loop()
            self._done = loop.create_future()
            loop.call_soon(self._flush)
        return entry

    async def committed(self) -> None:
        """Return once everything staged so far is durable; raise `StoreError` if it could not be made so."""
        if self._done is not None:
            await asyncio.shield(self._done)

    def _flush(self) -> None:
        batch, done = self._batch, self._done
        self._batch, self._staged, self._done = [], {}, None
        assert done is not None
        try:
            self._write(batch)
        except sqlite3.Error as error:
            self._next = self._rv
            done.set_exception(StoreError(f"{self.path}: nothing was written: {error}. {_advice(error)}"))
            done.exception()  # a writer that went away must not leave a warning behind
            return
        self._rv = self._next
        self._publish(batch)
        done.set_result(None)
        self._checkpoint_if_due(len(batch))

    def _write(self, batch: list[Change]) -> None:
        garbage = self._garbage
        rows = [
            (c.rv, c.resource, c.entry.namespace, c.entry.name, c.deleted, c.entry.body, zlib.crc32(c.entry.body))
            for c in batch
        ]
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("INSERT INTO revision VALUES (?,?,?,?,?,?,?)", rows)
            if garbage:
                self._db.executemany("DELETE FROM revision WHERE rv=?", [(rv,) for rv in garbage])
                self._db.execute("REPLACE INTO setting VALUES ('compacted', ?)", (self._compacted,))
            self._db.execute("COMMIT")
        except sqlite3.Error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise
        self._garbage = []

    def _publish(self, batch: list[Change]) -> None:
        for change in batch:
            self._apply(change)
        self._compact()
        for resource in {change.resource for change in batch}:
            listeners = self._listeners.get(resource)
            if listeners:
                changes = [change for change in batch if change.resource == resource]
                for listener in tuple(listeners):
                    listener(changes)

    def _apply(self, change: Change) -> None:
        live = self._live.get(change.resource)
        if live is None:
            live = self._live[change.resource] = SortedDict()
        key = (change.entry.namespace, change.entry.name)
        if change.deleted:
            live.pop(key, None)
        else:
            live[key] = change.entry
        self._history.append(change)
        self._history_bytes += len(change.entry.body)

    def _compact(self) -> None:
        """Forget the oldest history. Its rows go with the next transaction, so that steady load pays a steady price."""
        while len(self._history) > self._limits.changes or (
            self._history_bytes > self._limits.body_bytes and len(self._history) > 1
        ):
            self._forget(self._history.popleft())

    def _forget(self, change: Change) -> None:
        self._history_bytes -= len(change.entry.body)
        self._compacted = change.rv
        if change.old is not None:
            self._garbage.append(change.old.rv)
        if change.deleted:
            self._garbage.append(change.rv)

    def compact(self, rv: int) -> None:
        """Forget all history up to `rv`, as an operator of etcd would; tests use it to provoke 410."""
        while self._history and self._history[0].rv <= rv:
            self._forget(self._history.popleft())
        self._compacted = max(self._compacted, min(rv, self._rv))

    # -- the file
    # -------------------------------------------------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        try:
            db = connect(self.path)
            db.executescript(_SCHEMA)
            settings = dict(db.execute("SELECT name, value FROM setting"))
            if settings.setdefault("format", _FORMAT) != _FORMAT:
                raise StoreError(
                    f"{self.path}: written by another version of edl (format {settings['format']}); move the "
                    "file away to start afresh"
                )
            db.execute("REPLACE INTO setting VALUES ('format', ?)", (_FORMAT,))
            self._compacted = settings.get("compacted", 0)
            self._load(db)
        except sqlite3.DatabaseError as error:
            raise _unusable(self.path, error) from error
        return db

    def _load(self, db: sqlite3.Connection) -> None:
        for (problem,) in db.execute("PRAGMA quick_check(1)"):
            if problem != "ok":
                raise StoreDamagedError(
                    f"{self.path}: the file is damaged ({problem}); `edl up --recover` keeps a copy and "
                    "restores what can be read"
                )
        compacted = self._compacted
        self._rv = compacted
        for rv, resource, namespace, name, deleted, body, crc in db.execute("SELECT * FROM revision ORDER BY rv"):
            if zlib.crc32(body) != crc:
                raise StoreDamagedError(
                    f"{self.path}: revision {rv} ({resource} {namespace}/{name}) does not match its checksum; "
                    "`edl up --recover` keeps a copy and restores what can be read"
                )
            change = Change(
                resource, Entry(namespace, name, rv, body), self.get(resource, (namespace, name)), bool(deleted)
            )
            self._apply(change)
            if rv <= compacted:
                self._history.pop()
                self._history_bytes -= len(body)
            self._rv = rv
        self._compact()

    def _checkpoint_if_due(self, rows: int) -> None:
        """Fold the write-ahead log into the file, off the event loop, because that is where SQLite waits for the
        disk."""
        self._rows_since_checkpoint += rows
        if self.path is None or self._rows_since_checkpoint < _WAL_PAGES or self._checkpoint is not None:
            return
        self._rows_since_checkpoint = 0
        self._checkpoint = asyncio.get_running_loop().create_task(self._run_checkpoint(self.path))

    async def _run_checkpoint(self, path: Path) -> None:
        try:
            await asyncio.to_thread(_fold_log, path)
        except sqlite3.Error:
            pass  # the log stays and grows; the next attempt, or closing, folds it
        finally:
            self._checkpoint = None

    async def close(self) -> None:
        """Wait for what is staged and close the file. The store must not be used afterwards."""
        if self._done is not None:
            await asyncio.wait([self._done])
        if self._checkpoint is not None:
            await asyncio.wait([self._checkpoint])
        self._db.close()


def connect(path: Path | None) -> sqlite3.Connection:
    db = sqlite3.connect(path if path is not None else ":memory:", isolation_level=None, timeout=5)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")
    db.execute("PRAGMA wal_autocheckpoint=0")
    return db


def _fold_log(path: Path) -> None:
    db = connect(path)
    try:
        db.execute("PRAGMA wal_checkpoint(PASSIVE)")
    finally:
        db.close()


def _between(live: SortedDict, namespace: str, after: Key | None) -> Iterator[Entry]:
    low: Key = (namespace, "")
    if after is not None and after > low:
        low = after
    high = (namespace + "\0", "") if namespace else None
    return (live[key] for key in live.irange(low, high, inclusive=(after is None, False)))


def _undo(then: SortedDict, change: Change) -> None:
    key = (change.entry.namespace, change.entry.name)
    if change.old is None:
        then.pop(key, None)
    else:
        then[key] = change.old


def _advice(error: sqlite3.Error) -> str:
    if "full" in str(error):
        return "Free some space on that disk; reading goes on, and writing will as soon as there is room"
    return "Reading goes on; see that the file and its directory can be written"


def _unusable(path: Path | None, error: sqlite3.DatabaseError) -> StoreError:
    if isinstance(error, sqlite3.OperationalError):
        return StoreError(f"{path}: cannot be opened: {error}")
    return StoreDamagedError(
        f"{path}: the file is damaged ({error}); `edl up --recover` keeps a copy and restores what can be read"
    )
