"""The cluster as the server knows it: caches, and the rows, sums and series that are kept up from them.

Changes are gathered for a quarter of a second and worked on together, so that a thousand of them cost one message to
each viewer. Nothing here knows who looks.
"""

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from edl.api.kubernetes.core import Pod
from edl.jobs.registry import JOB_KIND_BY_CRD
from edl.kube.cache.informer import Informer
from edl.kube.cache.objects import Key, Object
from edl.kube.rest.client import Client
from edl.operator.reconcile.caches import Caches
from edl.operator.resources import RawJob
from edl.web.model.job_table import JobTable
from edl.web.model.rows import job_key, row_of
from edl.web.model.samples import ClusterSeries, JobSeries, point_of
from edl.web.model.usage import NOTHING, Usage, capacity_of, job_of, plus
from edl.web.types import ClusterSample, Holder, Liveness

log = logging.getLogger(__name__)

GATHER = 0.25
SAMPLE = 5.0
HOLDERS = 12  # jobs that a sample names
STALE = 100.0  # a cache that has heard nothing for so long does not follow; the server sends bookmarks every minute
_KEY = "both"


class ClusterState:
    """`client` reads with the server's own account."""

    def __init__(self, client: Client, *, clock: Callable[[], float] = time.time, gather: float = GATHER) -> None:
        self.caches = Caches(client)
        self.jobs = JobTable()
        self.usage = Usage()
        self.series = JobSeries()
        self.samples = ClusterSeries()
        self.touched: dict[str, int] = {}
        """By job: a number that no other moment has, new with every change of it or of its pods."""
        self._moments = itertools.count(1)
        self.clock = clock
        self.turn = 0
        """Grows with every round of changes, and when the caches stop or begin to follow."""
        self._gather = gather
        self._jobs: set[tuple[str, Key]] = set()
        self._pods: set[Key] = set()
        self._pod_jobs: dict[Key, str] = {}
        self._other = False
        self._listeners: set[asyncio.Event] = set()
        self._dirty = asyncio.Event()
        self._live = True

    # Watching.

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self._subscribe()
        tasks = [asyncio.create_task(informer.run(), name="informer") for informer in self.caches.all]
        tasks += [asyncio.create_task(self._work(), name="rows"), asyncio.create_task(self._sample(), name="samples")]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _subscribe(self) -> None:
        for kind, informer in self.caches.jobs.items():
            informer.add_handler("web", _keys, lambda key, kind=kind: self._mark_job(kind, key))  # type: ignore[misc]
        self.caches.pods.add_handler("web", _keys, self._mark_pod)
        for other in (self.caches.nodes, *self.caches.bounds, *self.caches.companions.values()):
            other.add_handler("web", lambda old, new: (_KEY,), self._mark_other)

    def _mark_job(self, kind: str, key: Key) -> None:
        self._jobs.add((kind, key))
        self._dirty.set()

    def _mark_pod(self, key: Key) -> None:
        self._pods.add(key)
        self._dirty.set()

    def _mark_other(self, _: object) -> None:
        self._other = True
        self._dirty.set()

    async def _work(self) -> None:
        while True:
            await self._dirty.wait()
            await asyncio.sleep(self._gather)
            self._dirty.clear()
            try:
                self.catch_up()
            except Exception:
                log.exception("changes could not be shown")

    def catch_up(self) -> None:
        """Takes up the changes that were gathered, and wakes whoever listens."""
        jobs, self._jobs = self._jobs, set()
        pods, self._pods = self._pods, set()
        for kind, key in jobs:
            self._take_job(kind, key)
        for key in pods:
            self._take_pod(key, self.caches.pods.get(key))
        if jobs or pods or self._other:
            self._other = False
            self.wake()

    def _take_job(self, kind: str, key: Key) -> None:
        raw: RawJob | None = self.caches.jobs[kind].get(key)
        name = job_key(kind, *key)
        self.touch(name)
        if raw is None:
            self.jobs.drop(name)
            self.series.forget(name)
            self.touched.pop(name, None)
            return
        row = row_of(JOB_KIND_BY_CRD[kind], raw)
        known = self.jobs.get(name)
        if known is not None and known.uid != row.uid:
            self.series.forget(name)
        if self.jobs.put(row):
            self.series.add(name, point_of(row, self.clock()))

    def _take_pod(self, key: Key, pod: Pod | None) -> None:
        self.usage.set(key, pod)
        before = self._pod_jobs.pop(key, "")
        after = job_of(pod) if pod is not None else ""
        if after:
            self._pod_jobs[key] = after
        for job in {before, after} - {""}:
            if self.jobs.get(job) is not None:
                self.touch(job)

    def touch(self, job: str) -> None:
        self.touched[job] = next(self._moments)

    # Listening.

    def wake(self) -> None:
        self.turn += 1
        for listener in self._listeners:
            listener.set()

    @contextmanager
    def listening(self) -> Iterator[asyncio.Event]:
        """An event that is set whenever something may have changed; the listener clears it."""
        event = asyncio.Event()
        self._listeners.add(event)
        try:
            yield event
        finally:
            self._listeners.discard(event)

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    # Health.

    @property
    def synced(self) -> bool:
        """Everything is known that the cluster has. A kind that is not installed has no jobs."""
        must = (self.caches.pods, self.caches.nodes)
        jobs = self.caches.jobs.values()
        return all(one.synced for one in must) and all(one.synced or _absent(one.failure) for one in jobs)

    async def wait_synced(self) -> None:
        """Until everything is known, and shown."""
        with self.listening() as changed:
            while not self.synced or self._jobs or self._pods:
                changed.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.1):  # that a kind is not installed is no change
                        await changed.wait()
        self.catch_up()

    def liveness(self) -> Liveness:
        watched: tuple[Informer[Any], ...] = (self.caches.pods, self.caches.nodes, *self.caches.jobs.values())
        wrong = [one for one in watched if (one.failure and not _absent(one.failure)) or one.age > STALE]
        if not wrong:
            return Liveness(live=True, why="", age=0.0)
        first = wrong[0]
        why = first.failure or f"nothing was heard for {first.age:.0f} s"
        return Liveness(live=False, why=f"{first.resource.plural}: {why}", age=max(one.age for one in wrong))

    # Samples of the whole.

    async def _sample(self) -> None:
        while True:
            await asyncio.sleep(1.0)
            live = self.liveness().live
            if live != self._live:
                self._live = live
                self.wake()
            if live and self.synced and self._sample_is_due():
                self.samples.add(self.sample())
                self.wake()

    def _sample_is_due(self) -> bool:
        known = self.samples.all()
        return not known or self.clock() - known[-1].time >= SAMPLE

    def sample(self) -> ClusterSample:
        capacity = others = jobs = NOTHING
        for node in self.caches.nodes.all():
            capacity = plus(capacity, capacity_of(node))
            others = plus(others, self.usage.on(node.metadata.name, ours=False))
            jobs = plus(jobs, self.usage.on(node.metadata.name, ours=True))
        most = sorted(self.usage.by_job.items(), key=lambda item: (-item[1][2], -item[1][0], item[0]))[:HOLDERS]
        rest = jobs
        for _, used in most:
            rest = rest[0] - used[0], rest[1] - used[1], rest[2] - used[2]
        return ClusterSample(
            time=self.clock(),
            capacity=capacity,
            others=others,
            holders=[Holder(key=key, used=used) for key, used in most],
            rest=(max(0.0, round(rest[0], 3)), max(0.0, rest[1]), max(0.0, rest[2])),
        )


def _keys(old: Object | None, new: Object | None) -> tuple[Key, ...]:
    item = new if new is not None else old
    return () if item is None else ((item.metadata.namespace, item.metadata.name),)


def _absent(failure: str | None) -> bool:
    """The kind is not installed."""
    return failure is not None and failure.startswith("ApiError: 404")
