"""Forgets the logs that the local cluster kept of jobs which are deleted by now."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from edl.cli.connect.jobs import all_jobs
from edl.embedded.kept_logs import KeptLogs
from edl.kube.rest.client import Client
from edl.kube.rest.errors import KubeError

EVERY = 60.0


@asynccontextmanager
async def logs_of_deleted_jobs_forgotten(
    client: Client, kept: KeptLogs, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> AsyncIterator[None]:
    """Now and then, while the block runs."""
    task = asyncio.create_task(_forget(client, kept, sleep))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _forget(client: Client, kept: KeptLogs, sleep: Callable[[float], Awaitable[None]]) -> None:
    while True:
        try:
            jobs = {job.uid for job in await all_jobs(client, None)}
        except KubeError:
            pass  # nothing is forgotten by mistake
        else:
            await asyncio.to_thread(kept.forget_others, jobs)
        await sleep(EVERY)
