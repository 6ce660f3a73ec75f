"""Starts and stops the parts of a controller process in the only order that is safe.

Start: probes and metrics, caches, wait until they are complete, then the lease (a standby has warm caches), then the
controllers. Stop: finish the keys in hand, give the lease back, write the last events, close. If the lease is lost,
or a part fails that must not, `run` raises and the process should exit: a restart is the one way to be sure.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

from edl.kube.cache import memory
from edl.kube.cache.informer import Informer
from edl.kube.controllers.controller import Controller
from edl.kube.controllers.lease import Lease
from edl.kube.controllers.metrics import RuntimeCollector
from edl.kube.controllers.recorder import EventRecorder
from edl.serving.http import serve_app

log = logging.getLogger(__name__)


class Manager:
    """`leading` are further parts that only a leader runs; `drain` bounds, in seconds, the end of the work in hand.

    `address` (host, port) serves /healthz, /readyz and, if `metrics`, /metrics to anybody; port 0 takes a free one,
    None serves nothing.
    """

    def __init__(
        self,
        *,
        informers: Sequence[Informer[Any]],
        controllers: Sequence[Controller],
        lease: Lease | None = None,
        recorder: EventRecorder | None = None,
        leading: Sequence[Callable[[], Awaitable[None]]] = (),
        address: tuple[str, int] | None = None,
        registry: CollectorRegistry | None = None,
        metrics: bool = True,
        drain: float = 8.0,
    ) -> None:
        self.is_leading = False
        self.url: str | None = None
        self._informers, self._controllers = informers, controllers
        self._lease, self._recorder, self._leading = lease, recorder, leading
        self._address, self._drain, self._shows_metrics = address, drain, metrics
        self._registry = registry or CollectorRegistry()
        self._registry.register(RuntimeCollector(informers, controllers))
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Asks `run` to end in good order; call it from a signal handler."""
        self._stopping.set()

    async def run(self) -> None:
        memory.tune()
        keepers = [*(informer.run for informer in self._informers), *([self._recorder.run] if self._recorder else [])]
        async with self._serve(), _together(keepers) as keeping:
            try:
                async with _together([self._work]) as working:
                    await self._stop_or_end(keeping, working)
                    if self.is_leading:  # it has heard of the stop and comes to its own end
                        await working
            finally:
                if self._recorder:
                    await self._recorder.drain()

    async def _stop_or_end(self, *parts: "asyncio.Future[Any]") -> None:
        """Returns at `stop`, or when a part has ended; raises what a part raised."""
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({stopping, *parts}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
        for part in parts:
            if part.done():
                part.result()

    async def _work(self) -> None:
        await asyncio.gather(*(informer.wait_synced() for informer in self._informers))
        log.info("caches are complete: %s", {one.resource.plural: len(one) for one in self._informers})
        memory.freeze()
        if self._lease is None:
            await self._lead()
        else:
            await self._lease.hold(self._lead)

    async def _lead(self) -> None:
        self.is_leading = True
        try:
            async with _together([*(one.run for one in self._controllers), *self._leading]) as parts:
                await self._stop_or_end(parts)
                await self._drain_queues()
        finally:
            self.is_leading = False

    async def _drain_queues(self) -> None:
        try:
            async with asyncio.timeout(self._drain):
                await asyncio.gather(*(one.drain() for one in self._controllers))
        except TimeoutError:
            log.warning("the work in hand was not done within %g s; it is cancelled", self._drain)

    # Probes and metrics.

    @asynccontextmanager
    async def _serve(self) -> AsyncIterator[None]:
        if self._address is None:
            yield
            return
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        if self._shows_metrics:
            app.router.add_get("/metrics", self._metrics)
        runner = await serve_app(app, *self._address)
        try:
            host, port = runner.addresses[0][:2]
            self.url = f"http://{host}:{port}"
            yield
        finally:
            await runner.cleanup()

    async def _healthz(self, request: web.Request) -> web.Response:
        """That this answers at all is the point: a loop that is stuck cannot."""
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.Response:
        """Ready means complete caches, leader or not: a standby serves webhooks too."""
        lines = [f"{one.resource.plural}: {_state(one)}" for one in self._informers]
        ready = all(one.synced for one in self._informers)
        return web.Response(text="\n".join([*lines, f"leading: {self.is_leading}", ""]), status=200 if ready else 503)

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), content_type="text/plain", charset="utf-8")


@asynccontextmanager
async def _together(parts: Sequence[Callable[[], Awaitable[None]]]) -> AsyncIterator["asyncio.Future[Any]"]:
    """Runs the parts; what is given raises as soon as one does. None of them outlives the block."""
    tasks = [asyncio.ensure_future(part()) for part in parts]
    whole = asyncio.gather(*tasks)
    try:
        yield whole
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, whole, return_exceptions=True)


def _state(informer: Informer[Any]) -> str:
    synced = f"{len(informer)} objects, {informer.age:.0f} s old" if informer.synced else "not synced"
    return f"{synced}; {informer.failure}" if informer.failure else synced
