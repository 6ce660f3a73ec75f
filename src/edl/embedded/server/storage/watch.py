"""Watches: stream every change after a revision that a selector matches, encoded once per form for all watches.

A watch is a listener on the store. It is fed synchronously when a transaction commits, so no change can fall between
the initial state and the stream. It writes to an `out` callable; the owner of the connection provides that and calls
`stop()` when the client is gone.
"""

import asyncio
from collections.abc import Callable, Iterable

import msgspec

from edl.embedded.server import status
from edl.embedded.server.http.render import Renderer
from edl.embedded.server.selectors import Selector
from edl.embedded.server.storage.revisions import Change, CompactedError, Entry
from edl.embedded.server.storage.store import Store

BOOKMARK_SECONDS = 60.0
_CHUNK = 256 << 10


class Watch:
    def __init__(
        self,
        *,
        store: Store,
        renderer: Renderer,
        namespace: str,
        selector: Selector,
        since: int | None,
        bookmarks: bool,
        initial_end: bool,
        seconds: float,
    ) -> None:
        self._store = store
        self._renderer = renderer
        self._namespace = namespace
        self._selector = selector
        self._since = since
        self._bookmarks = bookmarks
        self._initial_end = initial_end
        self._seconds = seconds
        self._columns_sent = renderer.form.shape != "Table"
        self._stop_listening: Callable[[], None] | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._out: Callable[[bytes], None] = _nowhere
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def storage(self) -> str:
        return self._renderer.resource.storage

    def start(self, out: Callable[[bytes], None]) -> None:
        self._out = out
        try:
            self._send_start()
        except CompactedError:
            oldest = self._store.compacted
            self.fail(status.expired(self._since or 0, oldest))
            return
        self._stop_listening = self._store.listen(self.storage, self._changed)
        loop = asyncio.get_running_loop()
        self._timers = [loop.call_later(self._seconds, self.stop), loop.call_later(BOOKMARK_SECONDS, self._bookmark)]

    def _send_start(self) -> None:
        if self._since is None:
            self._send(self._initial_lines())
            if self._initial_end:
                self._out(self._renderer.bookmark(self._store.rv, initial_end=True))
        else:
            self._changed(self._store.since(self._since))

    def _initial_lines(self) -> Iterable[bytes]:
        for entry in self._store.entries(self.storage, self._namespace):
            if self._selector.everything or self._selector.matches(entry):
                yield self._line("ADDED", entry)

    def _send(self, lines: Iterable[bytes]) -> None:
        pending: list[bytes] = []
        size = 0
        for line in lines:
            pending.append(line)
            size += len(line)
            if size > _CHUNK:
                self._out(b"".join(pending))
                pending, size = [], 0
        if pending:
            self._out(b"".join(pending))

    def _changed(self, changes: list[Change]) -> None:
        self._send(filter(None, map(self._encoded, changes)))

    def _encoded(self, change: Change) -> bytes | None:
        """The line for one change, or None when it does not concern this watch."""
        entry = change.entry
        if (
            change.resource != self.storage
            or (self._namespace and entry.namespace != self._namespace)
            or change.rv <= (self._since or 0)
        ):
            return None
        kind = self._kind(change)
        if not kind:
            return None
        if kind == "DELETED" and not change.deleted:
            entry = _left(change)
        if not self._columns_sent:
            return self._line(kind, entry)
        if change.encoded is None:
            return self._line(kind, entry)
        key = (kind, self._renderer.cache_key)
        line = change.encoded.get(key)
        if line is None:
            line = change.encoded[key] = self._line(kind, entry)
        return line

    def _kind(self, change: Change) -> str:
        """With a selector, an object that begins to match is ADDED and one that ceases to is DELETED."""
        if self._selector.everything:
            is_in, was_in = not change.deleted, change.old is not None
        else:
            is_in = not change.deleted and self._selector.matches(change.entry)
            was_in = change.old is not None and self._selector.matches(change.old)
        if is_in:
            return "MODIFIED" if was_in else "ADDED"
        return "DELETED" if was_in else ""

    def _line(self, kind: str, entry: Entry) -> bytes:
        columns, self._columns_sent = not self._columns_sent, True
        return self._renderer.event(kind, entry, columns=columns)

    def _bookmark(self) -> None:
        if self._bookmarks:
            self._out(self._renderer.bookmark(self._store.rv, initial_end=False))
        if self.closed.done():  # its client was found gone while we wrote
            return
        self._timers[1] = asyncio.get_running_loop().call_later(BOOKMARK_SECONDS, self._bookmark)

    def fail(self, error: status.ApiError) -> None:
        """Ends the watch with an ERROR event, because the response code has been sent already."""
        self._out(b'{"type":"ERROR","object":%s}\n' % error.body())
        self.stop()

    def stop(self) -> None:
        if self._stop_listening is not None:
            self._stop_listening()
            self._stop_listening = None
        for timer in self._timers:
            timer.cancel()
        self._timers = []
        if not self.closed.done():
            self.closed.set_result(None)


def _left(change: Change) -> Entry:
    """The last state that matched, at the revision at which it ceased to match: DELETED carries that."""
    assert change.old is not None
    body = msgspec.json.decode(change.old.body)
    body["metadata"]["resourceVersion"] = str(change.rv)
    return Entry(change.entry.namespace, change.entry.name, change.rv, msgspec.json.encode(body))


def _nowhere(chunk: bytes) -> None:
    return None
