"""Keeps what jobs have measured in their own states, and reads it there for jobs that have not called this leader.

News are written at most every ten seconds for each job and five times a second in all, beside the job service's own
limits: what pods wait for always comes first. Losing the latest of it costs a new leader a few samples.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from edl.operator.job_service.refusals import RefusedError
from edl.operator.job_service.store import UnavailableError
from edl.operator.reconcile.job_key import JobKey
from edl.operator.throughput.sampling import Sampler
from edl.throughput.measurements import Measurements

log = logging.getLogger(__name__)

INTERVAL = 2.0  # seconds between rounds: each looks at all jobs
WRITES = 10  # in each round
READS = 40
WAITS = 10.0  # seconds for a write; the others shall not wait for a store that does not answer
EVERY = 10.0  # seconds between two writes of one job


class MeasuringService(Protocol):
    """The job service as it is used here."""

    def sampler_of(self, key: JobKey) -> Sampler | None: ...

    async def keep_measured(self, key: JobKey) -> None: ...

    async def read_measured(self, key: JobKey) -> Measurements | None: ...


class Keeper:
    """`jobs` gives the keys and uids of the jobs that are there and not finished. `news` is called after some."""

    def __init__(
        self,
        service: MeasuringService,
        jobs: Callable[[], Iterable[tuple[JobKey, str]]],
        *,
        clock: Callable[[], float],
        news: Callable[[], None] = lambda: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._service, self._jobs, self._clock, self._sleep, self.news = service, jobs, clock, sleep, news
        self._known: dict[str, int] = {}  # by uid: the revision that was told
        self._written: dict[str, tuple[int, float]] = {}  # by uid: the revision that is kept, and since when
        self._read: dict[str, Measurements | None] = {}

    async def run(self) -> None:
        while True:
            await self._sleep(INTERVAL)
            await self.keep_due()

    async def keep_due(self) -> None:
        jobs = list(self._jobs())
        uids = {uid for _, uid in jobs}
        self._written = {uid: kept for uid, kept in self._written.items() if uid in uids}
        self._read = {uid: kept for uid, kept in self._read.items() if uid in uids}
        samplers = [(key, uid, self._service.sampler_of(key)) for key, uid in jobs]
        self._tell({uid: one.revision for _, uid, one in samplers if one is not None})
        due = [(key, uid, one) for key, uid, one in samplers if one is not None and self._is_due(uid, one)][:WRITES]
        unread = [(key, uid) for key, uid, one in samplers if one is None and uid not in self._read][:READS]
        writes = [self._write(key, uid, sampler) for key, uid, sampler in due]
        await asyncio.gather(*writes, *(self._look(key, uid) for key, uid in unread))

    def _tell(self, revisions: dict[str, int]) -> None:
        """That a job has learnt of its curve is reason for a plan."""
        known, self._known = self._known, revisions
        if any(revision != known.get(uid, 0) for uid, revision in revisions.items()):
            self.news()

    def measured(self, key: JobKey, uid: str) -> tuple[int, Measurements] | None:
        """The job's measurements and a number that differs after news."""
        sampler = self._service.sampler_of(key)
        if sampler is not None and (sampler.revision or sampler.measured.points):
            return sampler.revision, sampler.measured
        kept = self._read.get(uid)
        return (0, kept) if kept is not None else None

    def _is_due(self, uid: str, sampler: Sampler) -> bool:
        revision, since = self._written.get(uid, (0, -EVERY))
        return sampler.revision != revision and self._clock() - since >= EVERY

    async def _write(self, key: JobKey, uid: str, sampler: Sampler) -> None:
        self._written[uid] = sampler.revision, self._clock()
        try:
            async with asyncio.timeout(WAITS):
                await self._service.keep_measured(key)
        except (RefusedError, UnavailableError, TimeoutError) as error:
            log.info("%s/%s: its measurements are not kept, tried again: %s", key.namespace, key.name, error)
            self._written[uid] = -1, self._clock()

    async def _look(self, key: JobKey, uid: str) -> None:
        try:
            self._read[uid] = await self._service.read_measured(key)
        except UnavailableError as error:
            log.info("%s/%s: its measurements cannot be read yet: %s", key.namespace, key.name, error)
