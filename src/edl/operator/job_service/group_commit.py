"""Group commit: many changes of one job, one write to the store, and no answer before that write is known to be there.

A change is applied to the *staged* state at once, so that changes of one job are serial; readers see the *committed*
state only. One task per job writes the staged state, once per `interval` over time and a few times at once after a rest
(a job that starts needs some writes one after another), each write within a rate limit that all jobs share.
The result of a failed write is found out by reading, never guessed.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec

from edl.operator.job_service.memory_budget import MemoryBudget
from edl.operator.job_service.record import JobRecord
from edl.operator.job_service.refusals import NotLeadingError, RefusedError
from edl.operator.job_service.state import Change, JobState
from edl.operator.job_service.store import ConflictError, Store, Stored, UnavailableError
from edl.protocol.errors import ErrorCode

log = logging.getLogger(__name__)

Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]

INTERVAL = 1.0
BURST = 5
WRITES_PER_SECOND = 50.0
MAX_WAITING = 256  # calls of one job that wait for their write; past that they are refused with 429
RETRY = 0.5
RETIRED = "this replica no longer leads"


class RateLimiter:
    """Lets one caller through every 1/rate seconds, in the order of asking."""

    def __init__(self, *, clock: Clock, sleep: Sleep, rate: float = WRITES_PER_SECOND) -> None:
        self._clock, self._sleep, self._gap, self._next = clock, sleep, 1.0 / rate, 0.0

    async def take(self) -> None:
        now = self._clock()
        mine = max(now, self._next)
        self._next = mine + self._gap
        if mine > now:
            await self._sleep(mine - now)


class BurstAllowance:
    """One write per interval; what a job has not used it may use later, `burst` writes at most."""

    def __init__(self, interval: float, burst: int) -> None:
        self._interval, self._slack = interval, interval * (burst - 1)
        self._due = float("-inf")  # when the next write would come if they came evenly

    def wait(self, now: float) -> float:
        return max(0.0, self._due - self._slack - now)

    def spend(self, now: float) -> None:
        self._due = max(now, self._due) + self._interval


class DurableState:
    """The state of one job under one leader. `on_commit` is called whenever readers can see something new.

    `writer` is of this leadership alone, so that a state which carries it can only be one of our own writes.
    `record` is replaced by newer ones: what a restored job may take up changes when its annotation does.
    """

    def __init__(
        self,
        namespace: str,
        name: str,
        record: JobRecord,
        *,
        store: Store,
        limiter: RateLimiter,
        clock: Clock,
        sleep: Sleep,
        writer: str,
        interval: float = INTERVAL,
        burst: int = BURST,
        on_commit: Callable[[], None] = lambda: None,
        budget: MemoryBudget | None = None,
    ) -> None:
        self._name, self.record = (namespace, name), record
        self._store, self._limiter, self._clock, self._sleep = store, limiter, clock, sleep
        self._writer, self._allowance, self._on_commit = writer, BurstAllowance(interval, burst), on_commit
        self._loading, self._urgent = asyncio.Lock(), asyncio.Event()
        self._version: str | None = None
        self.loaded = self._closed = False
        self._waiting: dict[asyncio.Future[None], int] = {}  # whose change is in the staged revision named
        self._task: asyncio.Task[None] | None = None
        self._budget = budget or MemoryBudget()
        self.committed = self._staged = JobState()

    async def load(self) -> JobState:
        """The committed state, read from the store on first use."""
        async with self._loading:
            if not self.loaded:
                self._adopt(await self._read())
                self.loaded = True
        return self.committed

    async def write(self, change: Change, *, at_once: bool = False) -> int:
        """Applies the change and returns its result once it is durable. RefusedError: nothing was changed.

        `at_once` does not wait for others of this job to join its write; the common rate limit still holds.
        """
        await self.load()
        if self._closed:
            raise NotLeadingError(RETIRED)
        if len(self._waiting) >= MAX_WAITING:
            raise RefusedError(429, ErrorCode.BUSY, "too many writes of this job wait for their turn", retry_after=1)
        staged, result = change(self._staged)
        if staged is not self._staged:
            self._budget.check(self._staged, staged)
            self._stage(msgspec.structs.replace(staged, writer=self._writer))
        if self._staged is not self.committed:
            if at_once:
                self._urgent.set()
            await self._durable(self._staged.revision)
        return result

    def close(self) -> None:
        """This leader has retired: every call that waits is refused."""
        if not self._closed:
            self._budget.changed(self._staged, None)
        self._closed = True
        if self._task:
            self._task.cancel()
        self._fail(RETIRED)

    async def _durable(self, revision: int) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = revision
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._commit_all())
        try:
            await waiter
        finally:
            self._waiting.pop(waiter, None)

    async def _commit_all(self) -> None:
        while self._staged is not self.committed:
            if (pause := self._allowance.wait(self._clock())) > 0:
                await self._gather(pause)
            await self._limiter.take()
            try:
                await self._commit(self._staged)
            except UnavailableError as error:
                log.warning("state of %s/%s not written, trying again: %s", *self._name, error)
                await self._sleep(RETRY)

    async def _gather(self, seconds: float) -> None:
        """Lets changes come together, until one comes that cannot wait."""
        ends = {asyncio.ensure_future(self._sleep(seconds)), asyncio.ensure_future(self._urgent.wait())}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()

    async def _commit(self, staged: JobState) -> None:
        self._allowance.spend(self._clock())
        self._urgent.clear()
        try:
            self._version = await self._store.save(*self._name, self.record, staged, self._version)
        except (ConflictError, UnavailableError):
            await self._resolve(staged)
        else:
            self._settle(staged)

    async def _resolve(self, staged: JobState) -> None:
        """A write failed, or its answer was lost. What is stored says which."""
        stored = await self._read()
        if stored is None or stored.state == self.committed:
            self._version = stored.version if stored else None  # not written, or deleted by hand: write it again
        elif stored.state.writer == self._writer and stored.state.revision <= staged.revision:
            self._version = stored.version  # ours, this one or one before it whose answer was lost
            self._settle(stored.state)
        else:
            log.error("state of %s/%s was written by %s", *self._name, stored.state.writer)
            self._adopt(stored)
            self._fail("the job's state was written by another, ask again")
            self._on_commit()

    def _settle(self, state: JobState) -> None:
        self.committed = self._staged if state == self._staged else state
        for waiter, revision in list(self._waiting.items()):
            if revision <= state.revision and not waiter.done():
                waiter.set_result(None)
        self._on_commit()

    def _stage(self, state: JobState) -> None:
        if not self._closed:
            self._budget.changed(self._staged, state)
        self._staged = state

    def _adopt(self, stored: Stored | None) -> None:
        self._stage(stored.state if stored else JobState())
        self.committed = self._staged
        self._version = stored.version if stored else None

    def _fail(self, message: str) -> None:
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(RefusedError(503, ErrorCode.UNAVAILABLE, message, retry_after=1))

    async def _read(self) -> Stored | None:
        return await self._store.load(*self._name, self.record)
