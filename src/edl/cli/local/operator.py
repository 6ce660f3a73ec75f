"""EDL's operator beside a local cluster: the same code as in a pod, on the cluster's own transport.

It is the leader when the block begins. If it fails later it is restarted, as Kubernetes would restart its pod.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from edl.jobs.core.pods.pod_builder import PodSettings
from edl.kube.rest.transport import Transport
from edl.operator.main import run_operator
from edl.operator.settings import BrainSettings, OperatorSettings, ServiceSettings
from edl.scheduler.settings import Settings

log = logging.getLogger(__name__)

_RESTART_SECONDS = 1.0
_STOP_SECONDS = 10.0


@asynccontextmanager
async def operator(
    transport: Transport, *, data: Path, brain: BrainSettings | None = None, scheduler: Settings | None = None
) -> AsyncIterator[None]:
    """Pods reach its job service on loopback; every job has a directory of its own below `data`."""
    settings = OperatorSettings(
        pods=PodSettings(data_root=str(data)),
        service=ServiceSettings(host="127.0.0.1", port=0, url="https://127.0.0.1:{port}", address="127.0.0.1"),
        brain=brain,
        scheduler=scheduler or Settings(),
    )
    stop, leads = asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(_keep_running(transport, settings, stop, leads), name="operator")
    waiting = asyncio.create_task(leads.wait())
    try:
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        yield
    finally:
        stop.set()
        waiting.cancel()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(task), _STOP_SECONDS)
        task.cancel()
        await asyncio.gather(task, waiting, return_exceptions=True)


async def _keep_running(
    transport: Transport, settings: OperatorSettings, stop: asyncio.Event, leads: asyncio.Event
) -> None:
    """A failure before it leads is raised to the caller; later ones are logged and followed by a restart."""
    while not stop.is_set():
        try:
            await run_operator(transport, settings, stop=stop, on_leading=leads.set)
        except Exception:
            if not leads.is_set():
                raise
            log.exception("the operator failed; it is started again")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _RESTART_SECONDS)
