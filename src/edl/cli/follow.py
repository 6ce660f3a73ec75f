"""Looks at jobs again and again until they end, and tells a screen what is new. A cluster that does not answer for a
while ends nothing: the jobs run on without us.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .jobs import Summary, resource_of, summarize
from .live import Look, Screen, changes
from .main import CommandError
from .progress import Pace, ProgressReader

if TYPE_CHECKING:
    from edl.kube.client import Client

EVERY = 0.5
LOSSES = 200


class Watched:
    """One job, from look to look."""

    def __init__(self, client: "Client", job: Summary) -> None:
        self._client, self._first = client, job
        self._reader = ProgressReader(client, job.kind, job.namespace, job.name)
        self._pace = Pace()
        self._losses: deque[float] = deque(maxlen=LOSSES)
        self._told: Summary | None = None
        self.last = Look(job)

    async def look(self) -> Look:
        """CommandError if the job is gone."""
        from edl.kube.errors import ApiError

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
        # When it has ended, its pods and with them the way to the service may be gone: the last numbers stay.
        progress = await self._reader.read() or self.last.progress
        if progress is not None and progress.loss is not None:
            self._losses.append(progress.loss)
        self.last = Look(job, progress, self._pace.left(progress), tuple(self._losses))
        return self.last

    def news(self) -> list[str]:
        """What there is to say since the last time that this was asked."""
        before, self._told = self._told, self.last.job
        return changes(before, self.last.job)


async def follow(watched: Sequence[Watched], screen: Screen, stop: asyncio.Event, every: float = EVERY) -> None:
    """Until all have ended, or `stop` is set."""
    from edl.kube.errors import KubeError

    silent = False
    while not stop.is_set():
        try:
            looks = [await one.look() for one in watched]
        except KubeError as error:
            if not silent:
                screen.news("edl", f"the cluster does not answer ({error}); the jobs run on, trying again")
            silent = True
        else:
            silent = False
            for one in watched:
                for words in one.news():
                    screen.news(one.last.job.name, words)
            screen.show(looks)
            if all(look.job.finished for look in looks):
                return
        try:
            async with asyncio.timeout(every):
                await stop.wait()
        except TimeoutError:
            pass
