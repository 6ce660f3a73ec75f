"""What listens with the installation's certificate: the job service, the webhook and the metrics.

Every operator listens. Only the leader answers pods and has the API server call its webhook.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from edl.kube.rest.client import Client
from edl.operator.brain import maintain_brain_secret, own_brain
from edl.operator.credentials.certificate_rotation import Rotation
from edl.operator.credentials.identity import Identity
from edl.operator.job_service_host import JobServiceHost, Records, service_names
from edl.operator.metrics.server import MetricsServer
from edl.operator.reconcile.caches import Caches
from edl.operator.reconcile.job_cache import JobCache
from edl.operator.settings import SECRET, OperatorSettings
from edl.operator.trainer_requests import TrainerRequestHandler
from edl.operator.webhook import Webhook


class Endpoints:
    """`client` reads and renews the installation's own Secrets, `writer` writes for jobs as long as the lease holds."""

    service: JobServiceHost | None = None
    webhook: Webhook | None = None
    metrics: MetricsServer | None = None
    trainer_requests: TrainerRequestHandler | None = None

    def __init__(
        self,
        client: Client,
        writer: Client,
        caches: Caches,
        jobs: JobCache,
        settings: OperatorSettings,
        identity: Identity,
        *,
        read_metrics: Callable[[], bytes],
        clock: Callable[[], float],
    ) -> None:
        self._client, self._writer, self._settings = client, writer, settings
        self.brain = own_brain(identity, settings.namespace) if settings.own_brain else settings.brain
        self.rotation = rotation = _rotation(client, identity, settings, caches)
        if settings.service is not None:
            requests = self.trainer_requests = TrainerRequestHandler(
                writer, caches, jobs, gpu=settings.pods.installation.gpu, brain=self.brain, clock=clock
            )
            records = Records(caches, jobs, identity)
            self.service = JobServiceHost(
                writer, records, identity, settings.service, tls=rotation.tls, trainer_requests=requests
            )
        if settings.metrics is not None:
            self.metrics = MetricsServer(
                client,
                read_metrics,
                address=settings.metrics,
                tls=rotation.tls,
                own_token=lambda: rotation.identity.metrics_token,
            )
        if settings.webhook is not None:
            self.webhook = Webhook(
                writer,
                address=settings.webhook,
                tls=rotation.tls,
                name=settings.webhook_configuration,
                ca=identity.trusted,
            )

    @contextlib.asynccontextmanager
    async def listening(self, failed: Callable[[], None]) -> AsyncIterator[None]:
        """`failed` is called if the certificate can no longer be looked after: the operator must end then, too."""
        settings = self._settings
        async with contextlib.AsyncExitStack() as stack:
            if self.service is not None:
                await stack.enter_async_context(self.service.listening(settings.namespace))
            if self.webhook is not None:
                await stack.enter_async_context(self.webhook.listening())
            if self.metrics is not None:
                await stack.enter_async_context(self.metrics.listening())
            if settings.own_brain:
                kept = maintain_brain_secret(self._client, self.rotation.identity, settings.namespace)
                await stack.enter_async_context(in_background(kept))
            await stack.enter_async_context(in_background(_rotate(self.rotation, failed)))
            try:
                yield
            finally:
                await self.rotation.hand_over()

    @contextlib.asynccontextmanager
    async def leading(self) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            if self.service is not None:
                await stack.enter_async_context(self.service.leading(self._settings.namespace))
            if self.webhook is not None:
                await stack.enter_async_context(in_background(self.webhook.keep_ca_installed()))
            yield


async def _rotate(rotation: Rotation, failed: Callable[[], None]) -> None:
    try:
        await rotation.run()
    finally:
        failed()  # it ends only by failing


@contextlib.asynccontextmanager
async def in_background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Runs `work` while the block runs. If it failed, its error is raised at the end of the block."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        (ended,) = await asyncio.gather(task, return_exceptions=True)
        if isinstance(ended, Exception):
            raise ended


def _rotation(client: Client, identity: Identity, settings: OperatorSettings, caches: Caches) -> Rotation:
    return Rotation(
        client,
        identity,
        namespace=settings.namespace,
        secret=SECRET,
        names=service_names(settings),
        authority_secret=settings.authority_secret,
        outlived=caches.outlived,
    )
