"""Delivers changes to handlers, each at its own pace: a slow one delays neither the cache nor the others.

A handler is a quick, pure function of (old, new) that names the keys to work on. It runs in the event loop, in slices
of a few milliseconds from a queue of its own. One that raises is logged and counted, and goes on with the next change.
One that blocks the loop for longer than `slow_after`, three times within a thousand changes, is moved for good to a
thread of its own. Time is the loop's, so on virtual time nothing blocks and nothing moves, and runs stay deterministic.
"""

import asyncio
import logging
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from edl.kube.cache.objects import Object, key_of, name_of
from edl.kube.cache.store import Change

log = logging.getLogger(__name__)
T = TypeVar("T", bound=Object)
SLICE = 0.005
STRIKES = 3
FORGIVEN = 1000

Keys = Callable[[T | None, T | None], Iterable[Any] | None]


class Handler(Generic[T]):
    """Every key that `keys` names goes to `sink`, always in the loop that the handler was made in."""

    def __init__(self, name: str, keys: Keys[T], sink: Callable[[Any], None], *, slow_after: float = 0.05) -> None:
        self.name = name
        self.errors = 0
        self._keys = keys
        self._sink = sink
        self._slow_after = slow_after
        self._loop = asyncio.get_running_loop()
        self._pending: deque[Change[T]] = deque()
        self._scheduled = False
        self._strikes = self._since = 0
        self._thread: queue.SimpleQueue[Change[T] | None] | None = None

    @property
    def threaded(self) -> bool:
        return self._thread is not None

    def offer(self, changes: Iterable[Change[T]]) -> None:
        if self._thread is not None:
            for change in changes:
                self._thread.put(change)
            return
        self._pending.extend(changes)
        if self._pending and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._run_slice)

    def _run_slice(self) -> None:
        time, pending = self._loop.time, self._pending
        now = started = time()
        while pending and now - started < SLICE:
            self._notify(pending.popleft(), self._sink)
            before, now = now, time()
            self._since += 1
            if now - before > self._slow_after:
                self._strike(now - before)
        self._scheduled = bool(pending)
        if self._scheduled:
            self._loop.call_soon(self._run_slice)

    def _notify(self, change: Change[T], sink: Callable[[Any], object]) -> None:
        old, new = change
        try:
            for key in self._keys(old, new) or ():
                sink(key)
        except Exception:
            self.errors += 1
            subject: Any = new if new is not None else old
            log.exception("handler %s failed for %s", self.name, name_of(key_of(subject)))

    def _strike(self, took: float) -> None:
        """A busy machine, or a limit on the CPU, makes any call look slow now and then: those are forgiven."""
        self._strikes = 1 if self._since > FORGIVEN else self._strikes + 1
        self._since = 0
        if self._strikes >= STRIKES:
            self._move_to_thread(took)

    def _move_to_thread(self, took: float) -> None:
        log.warning("handler %s blocked the loop for %.3f s; from now on it runs in its own thread", self.name, took)
        changes = self._thread = queue.SimpleQueue()
        for change in self._pending:
            changes.put(change)
        self._pending.clear()
        threading.Thread(target=self._work, args=(changes,), name=f"handler-{self.name}", daemon=True).start()

    def _work(self, changes: "queue.SimpleQueue[Change[T] | None]") -> None:
        while (change := changes.get()) is not None and not self._loop.is_closed():
            self._notify(change, lambda key: self._loop.call_soon_threadsafe(self._sink, key))

    def stop(self) -> None:
        if self._thread is not None:
            self._thread.put(None)
