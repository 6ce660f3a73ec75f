"""Turns changes into work: informers name keys, workers reconcile them, one worker per key at a time.

`reconcile(key)` reads caches and writes the difference between what is and what should be. It returns None, or the
seconds after which the key is queued again. If it raises, that key alone is retried with back-off; the others are not
held up. It is not told what changed, on purpose: it is level-triggered.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

import msgspec
from prometheus_client import Histogram

from edl.kube.cache.handlers import Keys
from edl.kube.cache.informer import Informer
from edl.kube.cache.objects import Key, Object, controller_of, key_of, name_of
from edl.kube.controllers.workqueue import WorkQueue
from edl.kube.rest.errors import ApiError, KubeError

log = logging.getLogger(__name__)
T = TypeVar("T", bound=Object)
Reconcile = Callable[[Key], Awaitable[float | None]]
current: ContextVar[tuple[str, str, str] | None] = ContextVar("current", default=None)
"""Controller, namespace and name of what is being reconciled here, for log lines."""


def own_key(old: Object | None, new: Object | None) -> Iterable[Key]:
    """The object that changed is the one to reconcile."""
    item = new if new is not None else old
    return () if item is None else (key_of(item),)


def owner_key(kind: str, group: str) -> Callable[[Object | None, Object | None], Iterable[Key]]:
    """The object's controller is the one to reconcile, if it is of this kind: that of before and that of after."""

    def keys(old: Object | None, new: Object | None) -> Iterable[Key]:
        found: dict[Key, None] = {}
        for item in (old, new):
            owner = None if item is None else controller_of(item)
            if item is not None and owner is not None and owner.kind == kind and _group(owner.api_version) == group:
                found[item.metadata.namespace, owner.name] = None
        return found

    return keys


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


class Source(msgspec.Struct, Generic[T], frozen=True):
    """Changes that `informer` sees concern what `keys(old, new)` names, and may wait `delay(old, new)` s for more."""

    informer: Informer[T]
    keys: Keys[T] = own_key
    delay: Callable[[T | None, T | None], float] | None = None


class Controller:
    """`timeout` bounds one reconcile in seconds, so that one that hangs frees its worker."""

    def __init__(
        self,
        name: str,
        sources: Sequence[Source[Any]],
        reconcile: Reconcile,
        *,
        workers: int = 4,
        timeout: float = 120.0,
        queue: WorkQueue[Key] | None = None,
    ) -> None:
        self.name = name
        self.sources = sources
        self.queue: WorkQueue[Key] = WorkQueue() if queue is None else queue
        self.outcomes: Counter[str] = Counter()
        """Reconciles by how they ended: done, again, conflict, refused, error, timeout."""
        self.waits = Histogram("queue_seconds", "Time a key waited for a worker", registry=None)
        self.durations = Histogram("reconcile_seconds", "Time a reconcile took", registry=None)
        self._reconcile = reconcile
        self._workers = workers
        self._timeout = timeout

    async def run(self) -> None:
        """Until cancelled, or until `drain` has let the work run out. The caches must be synced."""
        handlers = [
            (source.informer, source.informer.add_handler(self.name, *self._queueing(source)))
            for source in self.sources
        ]
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._workers):
                    group.create_task(self.queue.run_worker(self._attempt), name=f"{self.name}-{number}")
        finally:
            for informer, handler in handlers:
                informer.remove_handler(handler)

    def _queueing(self, source: Source[T]) -> tuple[Keys[T], Callable[[Any], None]]:
        keys, delay = source.keys, source.delay
        if delay is None:
            return keys, self.queue.add

        def named(old: T | None, new: T | None) -> list[tuple[Key, float]]:
            return [(key, delay(old, new)) for key in keys(old, new) or ()]

        return named, lambda one: self.queue.add(one[0], delay=one[1])

    async def drain(self) -> None:
        await self.queue.drain()

    async def _attempt(self, key: Key, waited: float) -> None:
        self.waits.observe(waited)
        loop = asyncio.get_running_loop()
        started = loop.time()
        current.set((self.name, *key))
        try:
            async with asyncio.timeout(self._timeout):
                again = await self._reconcile(key)
        except Exception as error:
            self._failed(key, error)
        else:
            self.queue.forget(key)
            self.outcomes["done" if again is None else "again"] += 1
            if again is not None:
                self.queue.add(key, delay=again)
        self.durations.observe(loop.time() - started)
        current.set(None)

    def _failed(self, key: Key, error: Exception) -> None:
        """A refusal explains itself in a line; only what nobody expected deserves a traceback."""
        outcome = _outcome(error)
        self.outcomes[outcome] += 1
        pause = self.queue.retry(key)
        what = f"{type(error).__name__}: {error}" if outcome != "timeout" else f"not done within {self._timeout:g} s"
        level = logging.INFO if outcome == "conflict" else logging.ERROR if outcome == "error" else logging.WARNING
        trace = error if outcome == "error" else None
        log.log(level, "%s %s: %s; again in %.1f s", self.name, name_of(key), what, pause, exc_info=trace)


def _outcome(error: Exception) -> str:
    if isinstance(error, ApiError) and error.is_conflict:
        return "conflict"
    if isinstance(error, KubeError):
        return "refused"
    return "timeout" if isinstance(error, TimeoutError) else "error"
