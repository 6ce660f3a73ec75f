"""Progress of the jobs whose page is open, asked of the job service once a second for all who look at a job.

Status tells of progress every half minute at most; who watches a curve wants more. Where the server cannot ask the job
service, status is what there is.
"""

import asyncio
from collections.abc import Awaitable, Callable

from edl.operator.reconcile.job_key import JobKey
from edl.protocol.progress import Progress
from edl.web.model.rows import job_key, number
from edl.web.model.samples import Point
from edl.web.model.state import ClusterState

EVERY = 1.0
MOST = 20
ReadProgress = Callable[[JobKey], Awaitable[Progress | None]]
"""None: nobody knows. Never fails."""


class LiveProgress:
    def __init__(self, state: ClusterState, read: ReadProgress | None) -> None:
        self._state, self._read = state, read
        self._asked: dict[str, float] = {}

    @property
    def available(self) -> bool:
        return self._read is not None

    async def follow_all(self) -> None:
        """For ever: every job as if somebody looked at it. For a handful of them."""
        while True:
            for row in list(self._state.jobs.rows())[:MOST]:
                await self.refresh(JobKey(row.kind, row.namespace, row.name))
            await asyncio.sleep(EVERY)

    async def refresh(self, key: JobKey) -> None:
        """Adds a point to the job's series if there is news, unless that was done within the last second."""
        name, now = job_key(*key), asyncio.get_running_loop().time()
        row = self._state.jobs.get(name)
        if self._read is None or row is None or row.state in ("succeeded", "failed", "waiting", "new"):
            return
        if now - self._asked.get(name, float("-inf")) < EVERY:
            return
        self._asked = {job: when for job, when in self._asked.items() if now - when < 60.0}
        self._asked[name] = now
        found = await self._read(key)
        if found is None or (found.loss is None and found.throughput is None):
            return
        point = Point(self._state.clock(), row.now, row.target, number(found.loss), number(found.throughput))
        if self._state.series.add(name, point):
            self._state.touch(name)
