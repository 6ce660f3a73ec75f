"""Polls jobs until they end and shows what changed on a screen. A cluster that does not answer for a while ends
nothing: the jobs go on.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from edl.cli.connect.jobs import JobSummary, resource_of, summarize
from edl.cli.connect.log_progress import both
from edl.cli.connect.progress import ProgressReader
from edl.cli.errors import CommandError
from edl.cli.output.live import JobSnapshot, Screen, changes

if TYPE_CHECKING:
    from edl.cli.output.job_output import JobOutput
    from edl.kube.rest.client import Client
    from edl.protocol.job_state import JobView
    from edl.protocol.progress import LastProgress

EVERY = 0.25
LOSSES = 200


class WatchedJob:
    """A job that is followed, with its latest snapshot; `output` follows its log, too."""

    def __init__(self, client: "Client", job: JobSummary, output: "JobOutput | None" = None) -> None:
        self._client, self._first, self._output = client, job, output
        self._reader = ProgressReader(client, job.kind, job.namespace, job.name, uid=job.uid)
        self._losses: deque[float] = deque(maxlen=LOSSES)
        self._reported: JobSummary | None = None
        self._view: JobView | None = None
        self.last = JobSnapshot(job)

    async def refresh(self) -> JobSnapshot:
        """CommandError if the job is gone."""
        job = await self._job()
        # When it has ended, its pods and with them the way to the service may be gone: the last numbers stay.
        self._view = await self._reader.view() or self._view
        if self._output is not None:
            await self._output.renew(self._view, final=job.finished)
            if job.finished:
                await self._output.complete()
            if (report := self._output.to_post()) is not None:
                await self._reader.report(report)
        progress = self._progress()
        if progress is not None and progress.loss is not None:
            self._losses.append(progress.loss)
        left = progress.left if progress is not None else None
        self.last = JobSnapshot(job, progress, left, tuple(self._losses))
        return self.last

    async def _job(self) -> JobSummary:
        from edl.kube.rest.errors import ApiError

        first = self._first
        try:
            found = await self._client.get(resource_of(first.kind), first.name, namespace=first.namespace)
        except ApiError as error:
            if error.is_not_found:
                raise CommandError(f"{first.label} was deleted") from None
            raise
        job = summarize(first.kind, found)
        if job.uid != first.uid:
            raise CommandError(f"{first.label} was deleted, and another one made under its name")
        return job

    def _progress(self) -> "LastProgress | None":
        reported = self._view.progress or None if self._view is not None else None
        return both(reported, self._output.progress() if self._output is not None else None)

    def news(self) -> list[str]:
        """Changes since the last call, as text."""
        before, self._reported = self._reported, self.last.job
        return [*changes(before, self.last.job), *(self._output.news() if self._output is not None else ())]

    def lines(self) -> list[str]:
        """Log lines since the last call."""
        return self._output.lines() if self._output is not None else []

    async def close(self) -> None:
        if self._output is not None:
            await self._output.close()


async def follow(watched: Sequence[WatchedJob], screen: Screen, stop: asyncio.Event, every: float = EVERY) -> None:
    """Until all have ended, or `stop` is set. CommandError if the cluster knows us no more: credentials are renewed
    with every refusal where they can be, so these cannot."""
    from edl.kube.rest.errors import ApiError, KubeError

    silent = False
    while not stop.is_set():
        try:
            snapshots = [await one.refresh() for one in watched]
        except KubeError as error:
            if isinstance(error, ApiError) and error.is_unauthorized:
                job = watched[0].last.job
                raise CommandError(
                    f"the cluster does not accept your credentials any more ({error.status.message}); the jobs run on: "
                    f"log in again, then `edl attach {job.name}{job.where}` shows them"
                ) from None
            if not silent:
                screen.news("edl", f"the cluster does not answer ({error}); the jobs run on, trying again")
            silent = True
        else:
            silent = False
            for one in watched:
                screen.lines(one.last.job.name if len(watched) > 1 else "", one.lines())
                for text in one.news():
                    screen.news(one.last.job.name, text)
            screen.show(snapshots)
            if all(snapshot.job.finished for snapshot in snapshots):
                return
        try:
            async with asyncio.timeout(every):
                await stop.wait()
        except TimeoutError:
            pass
