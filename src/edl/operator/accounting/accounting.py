"""The accounting of one operator: what reconciles, plans, reports and Events tell it goes to ledger and history.

All of its methods return at once. `run` keeps, posts and tells points of time; only the leader runs it.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from edl.api.job_view import Installation
from edl.api.kubernetes import timestamp
from edl.jobs.views import view
from edl.kube.controllers.lease import boottime
from edl.kube.controllers.recorder import Reference
from edl.ledger.amounts import NOTHING
from edl.ledger.cluster_account import KeptCluster
from edl.ledger.job_use import JobFacts
from edl.operator.accounting.cluster_ledger import ClusterLedger, largest_of
from edl.operator.accounting.history_feed import HistoryFeed
from edl.operator.accounting.history_posts import HistoryPosts, Post
from edl.operator.accounting.job_facts import Demand, demand_of, facts_of
from edl.operator.accounting.job_ledger import JobLedger, LedgerKeeper
from edl.operator.accounting.ledger_totals import LedgerTotals
from edl.operator.accounting.turns import in_turns
from edl.operator.reconcile.caches import Caches
from edl.operator.reconcile.companion_cache import CompanionCache
from edl.operator.reconcile.job_cache import Entry, JobCache
from edl.operator.reconcile.job_key import JobKey
from edl.protocol.progress import LastProgress
from edl.scheduler.cluster_use import ClusterUse
from edl.scheduler.placement.resources import GPU_NAMES

log = logging.getLogger(__name__)

STEP = 1.0
KEEP_CLUSTER = 30.0  # seconds between two writes of how far all accounts are known
POINT = 60.0  # seconds between two points of the cluster, and two bookings of all accounts


class ClusterKeeper(Protocol):
    async def load(self) -> KeptCluster | None: ...

    async def save(self, kept: KeptCluster) -> None: ...


class Accounting:
    """Without keepers nothing of the ledger outlives the leader; without `post` nothing is told to a Brain."""

    def __init__(
        self,
        caches: Caches,
        jobs: JobCache,
        *,
        reported: Callable[[JobKey], LastProgress | None] = lambda key: None,
        keeper: LedgerKeeper | None = None,
        cluster_keeper: ClusterKeeper | None = None,
        post: Post | None = None,
        installation: Installation | None = None,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = boottime,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._caches, self._jobs, self._reported, self._installation = caches, jobs, reported, installation
        self._cluster_keeper, self._post, self._clock, self._steady = cluster_keeper, post, clock, steady
        self._sleep = sleep
        self._gpus = tuple(dict.fromkeys([*GPU_NAMES, *([installation.gpu] if installation is not None else [])]))
        self.ledger = JobLedger(clock=clock, steady=steady, keeper=keeper)
        self.cluster = ClusterLedger(clock=clock, steady=steady, gpus=self._gpus)
        self.feed = HistoryFeed(clock=clock)
        self.totals = LedgerTotals()
        self._demands: dict[str, tuple[object, Demand]] = {}
        self._leading = False
        self._kept = self._pointed = 0.0

    # What is told.

    def observed(self, key: JobKey) -> None:
        """Something about the job, its pods or its earlier pods may have changed. Never raises: a fault here must not
        hold up the job."""
        if self._leading:
            try:
                self._look(key)
            except Exception:
                log.exception("%s/%s cannot be accounted for", key.namespace, key.name)

    def _look(self, key: JobKey) -> None:
        entry = self._jobs.entry(key)
        uids = dict.fromkeys([*self.ledger.uids_of(key), *([entry.uid] if entry is not None else [])])
        for uid in uids:
            self._observe(key, uid, entry if entry is not None and entry.uid == uid else None)

    def _observe(self, key: JobKey, uid: str, entry: Entry | None) -> None:
        now = self._clock()
        demand = self._demand(entry) if entry is not None else Demand()
        reported = self._reported(key) if entry is not None else None
        facts = facts_of(entry, self._caches.pods_of(key, uid), demand, reported, now, self._gpus)
        if entry is None and not _holds(facts):
            self._close(key, uid)
            return
        if entry is not None:
            self.feed.observed(entry, demand.priority)
        created = entry.created if entry is not None else now
        self.ledger.observe(key, uid, created, facts, _end(entry, facts, now))

    def _close(self, key: JobKey, uid: str) -> None:
        self._demands.pop(uid, None)
        account = self.ledger.close(uid)
        if account is not None:
            self.totals.closed(key.namespace, account)
            self.feed.gone(uid, account)

    def _demand(self, entry: Entry) -> Demand:
        """Worked out once per version of the spec, and of what it follows."""
        if entry.job is None:
            return Demand()
        companion = self._companion(entry)
        version = entry.raw.metadata.generation, companion.metadata.resource_version if companion is not None else ""
        known = self._demands.get(entry.uid)
        if known is None or known[0] != version:
            found = demand_of(view(entry.job, companion=companion, installation=self._installation), self._gpus)
            known = self._demands[entry.uid] = version, found
        return known[1]

    def _companion(self, entry: Entry) -> Any:
        companion = entry.kind.companion
        if companion is None:
            return None
        cache = CompanionCache(companion.kind, self._caches.companions[companion.kind.crd_name])
        return entry.kind.followed(entry.job, cache.of(entry.key.namespace, entry.key.name))

    def planned(self, use: ClusterUse) -> None:
        self.cluster.planned(use)

    def reports(self, taken: Sequence[JobKey]) -> Sequence[JobKey]:
        """Jobs that have reported since the last call; the same are returned."""
        for key in taken:
            progress, entry = self._reported(key), self._jobs.entry(key)
            if progress is not None and entry is not None and progress.said:
                self.feed.progressed(entry.uid, progress)
            self.observed(key)
        return taken

    def event(self, regarding: Reference, type: str, reason: str, message: str) -> None:  # noqa: A002 - Kubernetes' word
        self.feed.event(regarding.uid, type, reason, message)

    # What is done about it.

    async def run(self) -> None:
        await self._lead()
        posts = HistoryPosts(self.feed, self.ledger.account, self._post, sleep=self._sleep) if self._post else None
        work = [self._for_ever(self.ledger.keep_some), self._for_ever(self._tell_and_keep)]
        if posts is not None:
            work.append(posts.run())
        tasks = [asyncio.create_task(one) for one in work]
        try:
            await asyncio.gather(*tasks)
        finally:
            self._leading = False
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._tell_point()
            if posts is not None:
                await posts.post_last()

    async def _lead(self) -> None:
        known = None
        try:
            known = await self._cluster_keeper.load() if self._cluster_keeper is not None else None
        except Exception as error:  # whatever it is, training does not depend on it
            log.warning("what the last leader knew of all accounts cannot be read: %s", error)
        self.ledger.lead(known)
        self.cluster.lead(known)
        self.feed.lead()
        self._kept = self._pointed = self._steady()
        self._leading = True
        async for entry in in_turns(list(self._jobs.entries())):
            self.observed(entry.key)

    async def _for_ever(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
            except Exception:
                log.exception("a round of the accounting failed; the next one is made all the same")
            await self._sleep(STEP)

    async def _tell_and_keep(self) -> None:
        now = self._steady()
        if now - self._pointed >= POINT:
            self._pointed = now
            await self._tell_point()
        if now - self._kept >= KEEP_CLUSTER:
            self._kept = now
            await self._keep_cluster()

    async def _tell_point(self) -> None:
        await self.ledger.book_all()
        await self.totals.book(self.ledger.accounts())
        point = self.cluster.point(await largest_of(self.ledger.open_accounts()))
        if point is not None:
            self.feed.cluster(point)

    async def _keep_cluster(self) -> None:
        if self._cluster_keeper is None:
            return
        try:
            await self._cluster_keeper.save(self.cluster.kept(self.ledger.behind()))
        except Exception as error:  # whatever it is, training does not depend on it
            log.warning("how far accounts are known is not kept, tried again later: %s", error)


def _holds(facts: JobFacts) -> bool:
    return any(one != NOTHING for one in (facts.starting, facts.failed, facts.running))


def _end(entry: Entry | None, facts: JobFacts, now: float) -> float | None:
    """When the job ended, if it has and holds nothing."""
    if entry is None or not entry.status.finished or _holds(facts):
        return None
    ended = entry.status.completion_time
    return min(now, timestamp.seconds(ended) + 1) if ended else now  # it is written in whole seconds


def reconcile_then_observe(
    reconcile: Callable[[tuple[str, str]], Awaitable[float | None]], kind: str, observed: Callable[[JobKey], None]
) -> Callable[[tuple[str, str]], Awaitable[float | None]]:
    """The reconcile of a kind, with a look at the job after each, however it went."""

    async def both(named: tuple[str, str]) -> float | None:
        try:
            return await reconcile(named)
        finally:
            observed(JobKey(kind, *named))

    return both
