"""Durable, versioned store behind the API server: every write is one row of one append-only table.

A write gets the next number of one global counter, as in etcd, and is a row `(rv, resource, namespace, name, body)`;
a deletion is a row too. The present state, the history that feeds watches, and what a list at an older revision saw
are all readings of that table, and all of them are kept in memory: the file is read once, when the store opens.

Writers stage (`put`, `remove`) and then await `committed()`. Everything staged within one turn of the event loop
becomes one transaction, so many concurrent requests share its cost. Readers see only what was committed; writers also
see what is staged, so that two writes of one turn cannot both win.

The store knows nothing of Kubernetes beyond keys and revisions; bodies are opaque bytes. `store_file.py` is the file.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from sortedcontainers import SortedDict

from edl.embedded.server.storage.revisions import Change, Entry, History, Key, Limits
from edl.embedded.server.storage.store_file import StoreError, StoreFile, row

_log = logging.getLogger(__name__)

Listener = Callable[[list[Change]], None]


class LogLimits(msgspec.Struct, frozen=True):
    """Bounds of the write-ahead log: past the first it is emptied in the background, past the second writers wait for
    that. It grows past the second by one transaction at most, unless the disk or another process keeps it from being
    emptied.
    """

    checkpoint_bytes: int = 8 << 20
    most_bytes: int = 64 << 20


class Store:
    """Open with `Store(path)`; `path=None` keeps everything in memory (for simulations and tests)."""

    def __init__(self, path: Path | None, *, limits: Limits = Limits(), log_limits: LogLimits = LogLimits()) -> None:  # noqa: B008 (frozen)
        self.path = path
        self._live: dict[str, SortedDict] = {}
        self._staged: dict[tuple[str, Key], Change] = {}
        self._batch: list[Change] = []
        self._done: asyncio.Future[None] | None = None
        self._listeners: dict[str, list[Listener]] = {}
        self._checkpoint: asyncio.Task[None] | None = None
        self._log_limits = log_limits
        self._checkpoint_at = log_limits.checkpoint_bytes
        self._writes_held = False
        self._file = StoreFile(path)
        self._rv = self._file.compacted
        self._history = History(limits, self._rv)
        try:
            self._load()
            self._file.convert()
        except StoreError:
            self._file.close()
            raise
        self._next = self._rv

    # -- reading ---------------------------------------------------------------------------------------------------

    @property
    def rv(self) -> int:
        """The newest committed revision."""
        return self._rv

    @property
    def compacted(self) -> int:
        """History after this revision is complete; at or before it, nothing is promised."""
        return self._history.compacted

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
        """What `entries` returned when `rv` was the newest revision. Raises `CompactedError` when that is compacted."""
        if rv >= self._rv:
            return self.entries(resource, namespace, after=after)
        then = SortedDict(self._live.get(resource, {}))
        for change in reversed(self.since(rv)):
            if change.resource == resource:
                _undo(then, change)
        return _between(then, namespace, after)

    def since(self, rv: int) -> list[Change]:
        """Every change after `rv`, oldest first. Raises `CompactedError` when some of them are compacted."""
        return self._history.since(rv)

    def count(self, resource: str) -> int:
        return len(self._live.get(resource, ()))

    def resources(self) -> list[str]:
        return [resource for resource, live in self._live.items() if live]

    def listen(self, resource: str, listener: Listener) -> Callable[[], None]:
        """Calls `listener` with the changes of each commit that touches `resource`; the result unsubscribes."""
        listeners = self._listeners.setdefault(resource, [])
        listeners.append(listener)

        def stop() -> None:
            if listener in listeners:
                listeners.remove(listener)

        return stop

    # -- writing ---------------------------------------------------------------------------------------------------

    def latest(self, resource: str, key: Key) -> Entry | None:
        """As `get`, but with staged writes: a writer must build on this."""
        staged = self._staged.get((resource, key))
        if staged is not None:
            return None if staged.deleted else staged.entry
        return self.get(resource, key)

    def staged(self, resource: str) -> list[Change]:
        """Writes of this turn to one resource, for admission that counts objects (quota)."""
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
        """Returns once everything staged so far is durable; raises `StoreError` if it could not be made so."""
        if self._done is not None:
            await asyncio.shield(self._done)

    def _flush(self) -> None:
        batch, done = self._batch, self._done
        if self._writes_held or done is None:
            return
        self._batch, self._staged, self._done = [], {}, None
        rows = [row(c.rv, c.resource, c.entry.namespace, c.entry.name, c.deleted, c.entry.body) for c in batch]
        try:
            self._file.write(rows, garbage=self._history.garbage, compacted=self._history.compacted)
        except StoreError as error:
            self._next = self._rv
            done.set_exception(error)
            done.exception()  # a cancelled writer must not cause a warning
            return
        self._history.swept()
        self._rv = self._next
        self._publish(batch)
        done.set_result(None)
        self._checkpoint_if_due()

    def _publish(self, batch: list[Change]) -> None:
        for change in batch:
            self._apply(change)
            self._history.add(change)
        self._history.trim()
        for resource in {change.resource for change in batch}:
            self._tell(resource, [change for change in batch if change.resource == resource])
        for change in batch:
            change.encoded = None

    def _tell(self, resource: str, changes: list[Change]) -> None:
        listeners = self._listeners.get(resource, [])
        for listener in tuple(listeners):
            try:
                listener(changes)
            except Exception:  # the write is durable: a failing listener must not fail its writer
                _log.exception("a listener of %s failed and is dropped", resource)
                if listener in listeners:
                    listeners.remove(listener)

    def _apply(self, change: Change) -> None:
        live = self._live.get(change.resource)
        if live is None:
            live = self._live[change.resource] = SortedDict()
        key = (change.entry.namespace, change.entry.name)
        if change.deleted:
            live.pop(key, None)
        else:
            live[key] = change.entry

    def compact(self, rv: int) -> None:
        """Drops all history up to `rv`, as an operator of etcd would; tests use it to provoke 410."""
        self._history.forget_up_to(min(rv, self._rv))

    # -- the file --------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        compacted = self._history.compacted
        for found in self._file.rows():
            entry = Entry(found.namespace, found.name, found.rv, found.body)
            old = self.get(found.resource, (found.namespace, found.name))
            change = Change(found.resource, entry, old, bool(found.deleted))
            change.encoded = None
            self._apply(change)
            if found.rv > compacted:
                self._history.add(change)
            self._rv = max(found.rv, compacted)
        self._history.trim()

    def _checkpoint_if_due(self) -> None:
        size = self._file.log_bytes
        if size < self._checkpoint_at:
            return
        if self._checkpoint is None:
            self._checkpoint = asyncio.get_running_loop().create_task(self._run_checkpoint())
        elif size >= self._log_limits.most_bytes:
            self._writes_held = True

    async def _run_checkpoint(self) -> None:
        """SQLite begins the log anew only at a moment when all of it is folded and nobody writes. Under steady writes
        there is none by itself: so most is folded while writing goes on, and writers wait for the little rest. They
        wait in `committed()`; the event loop never does.
        """
        try:
            await asyncio.to_thread(self._file.checkpoint)
            self._writes_held = True
            await asyncio.to_thread(self._file.empty_log)
            self._checkpoint_at = self._log_limits.checkpoint_bytes
        except StoreError as error:
            self._checkpoint_at = self._file.log_bytes + self._log_limits.checkpoint_bytes
            _log.warning("%s: the write-ahead log could not be folded and grows: %s", self.path, error)
        finally:
            self._checkpoint, self._writes_held = None, False
            if self._done is not None:
                self._flush()

    async def close(self) -> None:
        """Waits for staged writes and closes the file. The store must not be used afterwards."""
        while waiting := [pending for pending in (self._done, self._checkpoint) if pending is not None]:
            await asyncio.wait(waiting)
        self._file.close()


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
