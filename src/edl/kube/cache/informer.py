"""Keeps a local copy of one kind of object up to date, whatever happens to the connection or the server.

List in pages, then watch from the list's version, for ever. Every way a watch can end is one of two: the version is
still good (resume from it), or it is not (410: list again, and the *difference* to what we know, deletions included,
is what the handlers hear). So the cache converges on the truth after any gap; handlers hear of every change that
lasts, and may miss what came and went in between: reconcile from the cache, never from the event.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import aclosing
from typing import Any, Generic, TypeVar

import msgspec

from edl.kube.cache.handlers import Handler, Keys
from edl.kube.cache.indexes import Index
from edl.kube.cache.objects import Key, Object, key_of, name_of
from edl.kube.cache.partial_decoding import PartialDecoder
from edl.kube.cache.store import Change, Store
from edl.kube.rest.backoff import Backoff
from edl.kube.rest.client import Client, Scope
from edl.kube.rest.decoding import Bookmark, Event, Malformed, Page
from edl.kube.rest.errors import ApiError, ConnectionLostError, KubeError
from edl.kube.rest.resource import Resource

log = logging.getLogger(__name__)
T = TypeVar("T", bound=Object)
STALE_LISTS = 10  # so many newest states in a row, all older than what we saw: the server was restored from a backup
MAX_FAILED_WATCHES = 10  # after so many fruitless watches in a row a list is tried, whatever the reason may be
STEADY = 5.0  # a stream that lasted so many seconds was no failure


class Informer(Generic[T]):
    """`indexes` are read with `by`. A list asks for `page` objects at a time; a stream silent for `idle` s is left."""

    def __init__(
        self,
        client: Client,
        resource: Resource,
        kind: type[T],
        *,
        scope: Scope | None = None,
        indexes: Mapping[str, Index] | None = None,
        page: int = 500,
        idle: float = 90.0,
        rng: random.Random | None = None,
    ) -> None:
        self.resource = resource
        self.handlers: list[Handler[T]] = []
        self.lists = self.watches = self.events = self.malformed = 0
        self.failure: str | None = "not started"
        """Why the cache is not being kept up right now; None while it is."""
        self._client, self._scope = client, scope or Scope()
        decoder = PartialDecoder.for_kind(kind)
        self._type = decoder.type if decoder else kind
        self._store: Store[T] = Store(indexes, decoder)
        self._page, self._idle = page, idle
        self._rng = rng or random.Random()
        self._backoff = Backoff(base=0.1, cap=30.0, rng=self._rng)
        self._must_list = True
        self._in_pages = True
        self._stale_lists = 0
        self._listed_version = 0
        """The version of the last list of which a page was taken, complete or not: its objects are in the store."""
        self._heard = 0.0
        self._synced = asyncio.Event()
        self._readers: list[tuple[int, asyncio.Future[None]]] = []

    # Reading the cache.

    def get(self, key: Key) -> T | None:
        return self._store.get(key)

    def all(self) -> list[T]:
        return self._store.all()

    def by(self, index: str, value: Hashable) -> list[T]:
        return self._store.by(index, value)

    def __len__(self) -> int:
        return len(self._store)

    @property
    def synced(self) -> bool:
        return self._synced.is_set()

    @property
    def age(self) -> float:
        """Seconds since the server last said anything: how old the cache may be."""
        return asyncio.get_running_loop().time() - self._heard

    async def wait_synced(self) -> None:
        await self._synced.wait()

    async def wait_seen(self, version: str) -> None:
        """Until the cache is at least as new as this resourceVersion, such as the one a write was answered with."""
        if int(version) > self._store.version:
            reader: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._readers.append((int(version), reader))
            await reader

    def add_handler(self, name: str, keys: Keys[T], sink: Callable[[Any], None]) -> Handler[T]:
        """`keys(old, new)` names what to work on; each key goes to `sink`. What is cached counts as new."""
        handler: Handler[T] = Handler(name, keys, sink)
        self.handlers.append(handler)
        handler.offer([(None, item) for item in self._store.all()])
        return handler

    def remove_handler(self, handler: Handler[T]) -> None:
        self.handlers.remove(handler)
        handler.stop()

    # How it is kept true.

    async def run(self) -> None:
        """For ever; ends only by cancellation."""
        self._heard = asyncio.get_running_loop().time()
        try:
            while True:
                await asyncio.sleep(self._pause_after(await self._round()))
        finally:
            for handler in self.handlers:
                handler.stop()

    async def _round(self) -> Exception | None:
        try:
            if self._must_list:
                await self._list()
            await self._watch()
        except KubeError as error:
            return error
        except Exception as error:  # a bug of ours or of a server: the copy may be wrong, so it is made anew
            log.exception("%s: unexpected failure, listing again", self.resource.plural)
            self._must_list = True
            return error
        return None

    def _pause_after(self, error: Exception | None) -> float:
        pause = self._backoff.next()
        self._must_list |= self._backoff.failures % MAX_FAILED_WATCHES == 0
        if error is None:
            return pause
        self.failure = f"{type(error).__name__}: {error}"
        if isinstance(error, ApiError):
            pause += error.retry_after or 0.0
            self._must_list |= error.is_gone
        level = logging.WARNING if self._backoff.failures > 3 else logging.INFO
        todo = "listing again" if self._must_list else f"resuming from {self._store.version}"
        log.log(level, "%s: %s; %s in %.1f s", self.resource.plural, self.failure, todo, pause)
        return pause

    async def _list(self) -> None:
        self.lists += 1
        limit, self._in_pages = self._page if self._in_pages else None, True
        version, restored = "", False
        self._store.begin_list()
        pages = self._client.pages(self.resource, limit=limit, type=self._type, **self._scope)
        async with aclosing(pages):
            try:
                async for page in pages:
                    if not version:
                        version, restored = page.version, self._is_restored(int(page.version))
                    self._take_page(page, restored)
            except ApiError as error:
                self._in_pages = not error.is_gone  # the pages expire faster than we read them: take it in one piece
                raise
        self._deliver(self._store.complete_list(int(version)))
        self._must_list, self.failure = False, None
        self._synced.set()

    def _is_restored(self, version: int) -> bool:
        """A list is the newest state: it cannot be older than what we saw. If it is, time and again, history is new."""
        seen = max(self._store.version, self._listed_version)
        if version >= seen:
            self._stale_lists, self._listed_version = 0, version
            return False
        self._stale_lists += 1
        if self._stale_lists < STALE_LISTS:
            raise ConnectionLostError(f"the list is of version {version}, but {seen} was seen before")
        log.warning(
            "%s: the server has gone back to version %d; starting anew from there", self.resource.plural, version
        )
        self._stale_lists, self._listed_version = 0, version
        return True

    def _take_page(self, page: Page[T], restored: bool) -> None:
        """Every item is true by itself, so pages count as they come. Only `complete_list` may conclude what is gone."""
        self._heard = asyncio.get_running_loop().time()
        changes: list[Change[T]] = []
        upsert = self._store.upsert
        for item in page.items:
            try:
                changes += upsert(item, restored=restored)
            except msgspec.ValidationError as error:
                self._count_malformed(key_of(item), error)
        for bad in page.malformed:
            key = bad.identity.namespace, bad.identity.name
            self._store.mark_listed(key)
            self._count_malformed(key, bad.error)
        self._deliver(changes)

    async def _watch(self) -> None:
        self.watches += 1
        loop = asyncio.get_running_loop()
        started, version = loop.time(), self._store.version
        batches = self._client.watch(
            self.resource,
            resource_version=str(version),
            type=self._type,
            seconds=self._rng.uniform(300, 600),
            idle=self._idle,
            **self._scope,
        )
        try:
            async with aclosing(batches):
                async for batch in batches:
                    self._heard, self.failure = loop.time(), None
                    self._take_batch(batch)
        finally:
            if self._store.version > version or loop.time() - started >= STEADY:
                self._backoff.reset()

    def _take_batch(self, batch: Iterable[Event[T] | Bookmark | Malformed]) -> None:
        changes: list[Change[T]] = []
        store, upsert = self._store, self._store.upsert
        newest, count = store.version, 0
        try:
            for event in batch:
                count += 1
                if type(event) is Event:
                    item = event.object
                    version = int(item.metadata.resource_version)
                    if event.type == "DELETED":
                        changes += store.remove(key_of(item), item.metadata.uid, version)
                    else:
                        try:
                            changes += upsert(item)
                        except msgspec.ValidationError as error:
                            self._count_malformed(key_of(item), error)
                else:
                    version = self._take_other(event, changes)
                if version > newest:
                    newest = version
        finally:  # an ERROR event ends the stream, and what came before it counts
            store.version = newest
            self.events += count
            self._deliver(changes)

    def _take_other(self, event: Any, changes: list[Change[T]]) -> int:
        if isinstance(event, Bookmark):
            return int(event.version)
        identity = event.identity
        key = identity.namespace, identity.name
        self._count_malformed(key, event.error)
        version = int(identity.resource_version or 0)
        if event.type == "DELETED":
            changes += self._store.remove(key, identity.uid, version)
        return version

    def _count_malformed(self, key: Key, error: object) -> None:
        """An object that we cannot read keeps its last readable version: to call it gone would have it made again."""
        self.malformed += 1
        kind, name = self.resource.kind, name_of(key)
        log.error("%s %s cannot be read (%s); its last readable version is kept", kind, name, error)

    def _deliver(self, changes: list[Change[T]]) -> None:
        if changes:
            for handler in self.handlers:
                handler.offer(changes)
        if self._readers:
            version = self._store.version
            for wanted, reader in self._readers:
                if wanted <= version and not reader.done():
                    reader.set_result(None)
            self._readers = [entry for entry in self._readers if not entry[1].done()]
