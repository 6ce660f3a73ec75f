"""Has jobs reconciled of which the job service knows news: reports of pods bring about no reconcile.

That a script cannot work is told at once. Progress that should be written is told of at most 20 jobs a second in all,
and of each at most every 30 s. Whether anything is written is the reconcile's to decide.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from edl.jobs.core.progress import EVERY
from edl.operator.reconcile.job_key import JobKey

log = logging.getLogger(__name__)

INTERVAL = 1.0  # seconds between rounds
MOST = 20  # jobs in each round


class ProgressWrites:
    """`reported` gives the jobs that reported since it was last asked, `urgent` those that cannot wait."""

    def __init__(
        self,
        reported: Callable[[], Sequence[JobKey]],
        requeue: Callable[[JobKey], None],
        urgent: Callable[[], Sequence[JobKey]] = tuple,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._reported, self._urgent, self._requeue = reported, urgent, requeue
        self._clock, self._sleep = clock, sleep
        self._waiting: dict[JobKey, None] = {}  # in the order of their reports
        self._next: dict[JobKey, float] = {}
        """When each job may be requeued again."""

    async def run(self) -> None:
        while True:
            await self._sleep(INTERVAL)
            try:
                self.requeue_due()
            except Exception:  # what pods told is in it, and no job's nonsense may end the leader of all
                log.exception("news of jobs were not handed on; they are asked for again")

    def requeue_due(self) -> None:
        for key in self._urgent():
            self._requeue(key)
        now = self._clock()
        self._waiting |= dict.fromkeys(self._reported())
        self._next = {key: when for key, when in self._next.items() if when > now}
        due = [key for key in self._waiting if key not in self._next][:MOST]
        for key in due:
            del self._waiting[key]
            self._next[key] = now + EVERY
            self._requeue(key)
