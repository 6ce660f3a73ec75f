"""Keys that need work. Not events: equal keys collapse, and a worker reads the state as it is when it takes a key.

Promises: a key is never worked on twice at the same time; an add during the work is not lost (the key comes again when
the work is done); a key that fails comes back later each time, until `forget`. Lives in one event loop, has no lock.
"""

import asyncio
import heapq
import itertools
import random
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from typing import Generic, TypeVar

from edl.kube.rest.backoff import jittered

K = TypeVar("K", bound=Hashable)


class QueueClosedError(Exception):
    """The queue was drained: there is no more work."""


class WorkQueue(Generic[K]):
    """`base` and `cap` bound the back-off of a failing key, in seconds."""

    def __init__(self, *, base: float = 0.05, cap: float = 60.0, rng: random.Random | None = None) -> None:
        self._base, self._cap = base, cap
        self._rng = rng or random.Random()
        self._ready: list[tuple[int, int, K]] = []  # heap by (priority, arrival); may hold outdated entries
        self._queued: dict[K, tuple[int, float]] = {}  # key -> (priority, when it became ready); the truth about _ready
        self._working: set[K] = set()
        self._again: dict[K, int] = {}  # added while being worked on -> priority
        self._delayed: dict[K, tuple[float, int, asyncio.TimerHandle]] = {}
        self._failures: dict[K, int] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._idle = asyncio.Event()
        self._idle.set()
        self._numbers = itertools.count()
        self._closed = False

    def __len__(self) -> int:
        """Keys that wait for a worker now; those that wait for a time are `delayed`."""
        return len(self._queued) + len(self._again)

    @property
    def delayed(self) -> int:
        return len(self._delayed)

    @property
    def working(self) -> int:
        return len(self._working)

    def add(self, key: K, *, priority: int = 0, delay: float = 0.0) -> None:
        """A lower priority number goes first. Of several adds the soonest time and the best priority count."""
        if self._closed:
            return
        if delay > 0:
            self._add_later(key, priority, delay)
            return
        waiting = self._delayed.pop(key, None)
        if waiting is not None:
            waiting[2].cancel()
            priority = min(priority, waiting[1])
        if key in self._working:
            self._again[key] = min(priority, self._again.get(key, priority))
            return
        known = self._queued.get(key)
        if known is None or priority < known[0]:
            since = known[1] if known else asyncio.get_running_loop().time()
            self._queued[key] = (priority, since)
            heapq.heappush(self._ready, (priority, next(self._numbers), key))
            self._idle.clear()
            self._wake()

    def _add_later(self, key: K, priority: int, delay: float) -> None:
        loop = asyncio.get_running_loop()
        when = loop.time() + delay
        known = self._delayed.get(key)
        if known is not None:
            if known[0] <= when and known[1] <= priority:
                return
            known[2].cancel()
            when, priority = min(when, known[0]), min(priority, known[1])
        elif key in self._queued or key in self._again:
            return  # it runs before then anyway
        self._delayed[key] = (when, priority, loop.call_at(when, self._due, key))

    def _due(self, key: K) -> None:
        _, priority, _ = self._delayed.pop(key)
        self.add(key, priority=priority)

    async def get(self) -> tuple[K, float]:
        """The next key, and how many seconds it waited for a worker. Every get must be followed by `done`."""
        while True:
            if self._queued:
                return self._take()
            if self._closed:
                raise QueueClosedError
            getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter.done() and not getter.cancelled():
                    self._wake()  # woken and cancelled at once: another worker must check
                raise

    async def run_worker(self, work: Callable[[K, float], Awaitable[None]]) -> None:
        """One worker, until the queue is drained: `work(key, waited)` for every key. What that raises ends it."""
        with suppress(QueueClosedError):
            while True:
                key, waited = await self.get()
                try:
                    await work(key, waited)
                finally:
                    self.done(key)

    def _take(self) -> tuple[K, float]:
        while True:
            priority, _, key = heapq.heappop(self._ready)
            known = self._queued.get(key)
            if known is not None and known[0] == priority:
                break
        del self._queued[key]
        self._working.add(key)
        return key, asyncio.get_running_loop().time() - known[1]

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def done(self, key: K) -> None:
        self._working.remove(key)
        priority = self._again.pop(key, None)
        if priority is not None:
            closed, self._closed = self._closed, False  # what came before the end is still owed
            self.add(key, priority=priority)
            self._closed = closed
        elif not self._queued and not self._working:
            self._idle.set()

    def retry(self, key: K, *, priority: int = 0) -> float:
        """Back-off: the key comes back after 1, 2, 4... times `base` (jittered, at most `cap`). Returns the delay."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = jittered(failures, self._base, self._cap, self._rng)
        self.add(key, priority=priority, delay=delay)
        return delay

    def forget(self, key: K) -> None:
        """The key succeeded: its next failure starts from `base` again."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    async def drain(self) -> None:
        """No more adds; returns when everything that was ready is done. What was delayed is dropped."""
        self._closed = True
        for _, _, timer in self._delayed.values():
            timer.cancel()
        self._delayed.clear()
        for getter in self._getters:
            if not getter.done():
                getter.set_result(None)
        await self._idle.wait()
