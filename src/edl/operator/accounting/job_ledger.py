"""The accounts of all jobs under one leader: booked on change and once a minute, kept in the jobs' state objects.

A job that this leader's predecessor knew goes on from what was kept of it, which is read first; until then what is
observed of it waits. An account is written at most once a minute, and only if the job does something else than the last
written one says: a successor can tell the rest by itself. Time is measured by a clock that does not jump.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec
from msgspec.structs import replace

from edl.ledger.booking import OpenAccount, begin, book, opened, resume, use_now
from edl.ledger.cluster_account import KeptCluster
from edl.ledger.job_account import JobAccount
from edl.ledger.job_use import JobFacts, KeptLedger, observe
from edl.ledger.uses import Use
from edl.operator.accounting.turns import in_turns
from edl.operator.reconcile.job_key import JobKey

log = logging.getLogger(__name__)

KEEP = 60.0  # seconds between two writes of one account
AT_ONCE = 20  # accounts that are written in a second
READ_AT_ONCE = 100  # and read
RETRY, LAST_RETRY = 15.0, 300.0
WITHIN = 10.0  # seconds for one account
SEVERAL = 3  # failures in a row after which the store is taken to be away
GIVE_UP = 8  # tries to read what was kept, about ten minutes; then it is estimated
BUFFERED = 16  # observations that wait for what was kept


class LedgerKeeper(Protocol):
    """Where accounts are kept: the jobs' state objects. Both raise if the store does not answer."""

    async def load_ledger(self, key: JobKey, uid: str) -> KeptLedger | None: ...

    async def keep_ledger(self, key: JobKey, uid: str, kept: KeptLedger) -> None: ...


class _Job(msgspec.Struct):
    key: JobKey
    uid: str
    kept: KeptLedger
    booked: float
    """By the steady clock: when it was last booked."""
    written: float
    facts: JobFacts | None = None
    dirty: float | None = None
    """Since when it does something else than was written, in the account's own time."""
    end: float | None = None
    """When the job ended, if it has and holds nothing any more: nothing is booked after that."""
    failures: int = 0
    again: float = 0.0
    """Not to be read or written before, by the steady clock."""
    adopted: bool = True
    seen: list[tuple[float, float, JobFacts]] = []
    """Observations that wait: steady clock, time, facts."""


class JobLedger:
    """`steady` never jumps and never goes back; `clock` is the time of day. Without a `keeper` nothing outlives the
    leader."""

    def __init__(
        self, *, clock: Callable[[], float], steady: Callable[[], float], keeper: LedgerKeeper | None = None
    ) -> None:
        self._clock, self._steady, self._keeper = clock, steady, keeper
        self._jobs: dict[str, _Job] = {}
        self._by_key: dict[JobKey, list[str]] = {}
        self._again = 0.0
        self._led_since = clock()
        self._known: KeptCluster | None = None

    def lead(self, known: KeptCluster | None) -> None:
        """Begins a leadership. `known`: what the predecessor knew of all accounts, and when."""
        self._jobs.clear()
        self._by_key.clear()
        self._led_since, self._known = self._clock(), known

    def __len__(self) -> int:
        return len(self._jobs)

    def uids_of(self, key: JobKey) -> Sequence[str]:
        """The job of this name, and earlier ones of it whose pods are not gone."""
        return self._by_key.get(key, ())

    def observe(self, key: JobKey, uid: str, created: float, facts: JobFacts, end: float | None = None) -> None:
        """`end`: when the job ended, if it has and no pod of it holds anything."""
        job = self._jobs.get(uid)
        if job is None:
            job = self._jobs[uid] = self._open(key, uid, created, end)
            self._by_key[key] = [*self._by_key.get(key, ()), uid]
        now, steady = self._clock(), self._steady()
        if end is not None:
            self._end(job, steady, end)
        elif not job.adopted:
            if len(job.seen) < BUFFERED or job.seen[-1][2] != facts:
                job.seen = [*job.seen[: BUFFERED - 1], (steady, now, facts)]
        elif facts != job.facts:
            self._book(job, steady, now, facts)

    def _end(self, job: _Job, steady: float, end: float) -> None:
        if job.end is None and job.adopted:
            job.kept = replace(job.kept, open=use_now(book(job.kept.open, steady - job.booked), Use.IDLE, {}))
            job.dirty = job.kept.open.until if job.dirty is None else job.dirty
        job.end = end

    def _open(self, key: JobKey, uid: str, created: float, end: float | None) -> _Job:
        now, steady = self._clock(), self._steady()
        now = now if end is None else max(created, min(now, end))
        if self._keeper is not None and created < self._led_since:
            return _Job(key, uid, KeptLedger(opened(created)), steady, steady, adopted=False)
        estimated = created < self._led_since
        account = begin(created, now) if estimated else book(opened(created), now - created)
        return _Job(key, uid, KeptLedger(account), steady, steady, dirty=account.until, end=end)

    def _book(self, job: _Job, steady: float, now: float, facts: JobFacts) -> None:
        before = job.kept.open
        job.kept = observe(job.kept, facts, now, steady - job.booked)
        job.facts, job.booked = facts, steady
        if job.dirty is None and not before.same_uses(job.kept.open):
            job.dirty = job.kept.open.until

    async def book_all(self) -> None:
        """Up to now, whatever they do. Once a minute."""
        async for job in in_turns(list(self._jobs.values())):
            if job.adopted:
                self._book_until(job, self._steady())

    def _book_until(self, job: _Job, steady: float) -> None:
        if job.end is None:
            job.kept = replace(job.kept, open=book(job.kept.open, steady - job.booked))
        job.booked = steady

    def account(self, uid: str) -> JobAccount | None:
        """Up to now. None while what was kept of it has not been read."""
        job = self._jobs.get(uid)
        if job is None or not job.adopted:
            return None
        self._book_until(job, self._steady())
        return job.kept.open.account

    def accounts(self) -> Sequence[tuple[JobKey, JobAccount]]:
        """As last booked."""
        return [(job.key, job.kept.open.account) for job in self._jobs.values() if job.adopted]

    def open_accounts(self) -> Sequence[tuple[JobKey, OpenAccount]]:
        """Of jobs that have not ended."""
        return [(job.key, job.kept.open) for job in self._jobs.values() if job.adopted and job.end is None]

    def close(self, uid: str) -> JobAccount | None:
        """The job is gone, and its pods are: nothing more will be booked. If it went before what was kept of it was
        read, its account is empty."""
        account, job = self.account(uid), self._jobs.pop(uid, None)
        if job is None:
            return None
        self._by_key[job.key] = [other for other in self._by_key[job.key] if other != uid]
        if not self._by_key[job.key]:
            del self._by_key[job.key]
        return account or job.kept.open.account

    def behind(self) -> Mapping[str, float]:
        """Accounts that are not written as they are, and until when what is written holds."""
        return {job.uid: job.dirty for job in self._jobs.values() if job.dirty is not None}

    # Keeping.

    async def keep_some(self) -> None:
        """Reads what predecessors kept, and writes what is due; a few jobs each time. What fails is tried again."""
        steady = self._steady()
        if self._keeper is None or steady < self._again:
            return
        ready = [job for job in self._jobs.values() if steady >= job.again]
        unread = [job for job in ready if not job.adopted][:READ_AT_ONCE]
        due = [job for job in ready if job.dirty is not None and steady - job.written >= KEEP][:AT_ONCE]
        failures = 0
        for job in (*unread, *due):
            failures += not await self._try(job, self._keeper)
            if failures >= SEVERAL:  # it is not about one job
                self._again = self._steady() + RETRY
                return

    async def _try(self, job: _Job, keeper: LedgerKeeper) -> bool:
        """Whether it worked. One job that cannot be kept (its name is taken, a quota) holds up no other."""
        try:
            async with asyncio.timeout(WITHIN):
                await (self._write(job, keeper) if job.adopted else self._adopt(job, keeper))
        except Exception as error:  # whatever it is, training does not depend on it
            job.failures += 1
            job.again = self._steady() + min(RETRY * job.failures, LAST_RETRY)
            said = error or type(error).__name__
            log.warning("%s/%s: its account is not kept now, but later: %s", job.key.namespace, job.key.name, said)
            if not job.adopted and job.failures >= GIVE_UP:
                self._continue(job, None)
            return False
        job.failures = 0
        return True

    async def _adopt(self, job: _Job, keeper: LedgerKeeper) -> None:
        self._continue(job, await keeper.load_ledger(job.key, job.uid))

    def _continue(self, job: _Job, kept: KeptLedger | None) -> None:
        """Goes on from what was kept, and books what was seen since this leader began."""
        steady, now, _ = job.seen[0] if job.seen else (self._steady(), self._clock(), None)
        now = now if job.end is None else min(now, job.end)
        if kept is None:
            job.kept = KeptLedger(begin(job.kept.open.account.since, now))
            job.dirty = job.kept.open.until
        else:
            job.kept = replace(kept, open=resume(kept.open, self._known_until(job.uid), now))
        job.adopted, job.booked, job.facts = True, steady, None
        for then, when, facts in job.seen:
            self._book(job, then, when, facts)
        job.seen = []

    def _known_until(self, uid: str) -> float:
        if self._known is None:
            return 0.0
        return self._known.behind.get(uid, self._known.until)

    async def _write(self, job: _Job, keeper: LedgerKeeper) -> None:
        steady = self._steady()
        self._book_until(job, steady)
        dirty, job.dirty = job.dirty, None  # what changes while it is being written makes it dirty again
        try:
            await keeper.keep_ledger(job.key, job.uid, job.kept)
        except BaseException:
            job.dirty = dirty
            raise
        job.written = steady
