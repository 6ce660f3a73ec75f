"""Runs the operator, in a process of its own or inside another's.

Start: check the server's version, register the kinds, load the installation's identity, listen; then the manager takes
over (caches, lease, controllers).
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable

from msgspec.structs import replace

from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError
from edl.kube.rest.rate_limiter import RateLimiter
from edl.kube.rest.transport import Transport
from edl.operator.crds import check_kinds, check_version, register_crds
from edl.operator.credentials.identity import load_identity
from edl.operator.job_service_host import service_names
from edl.operator.metrics.requests import MeteredTransport
from edl.operator.operator import BURST, QPS, Operator
from edl.operator.resources import NAMESPACES
from edl.operator.server_features import can_resize
from edl.operator.settings import SECRET, OperatorSettings

log = logging.getLogger(__name__)


async def run_operator(
    transport: Transport,
    settings: OperatorSettings,
    *,
    stop: asyncio.Event,
    on_leading: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.time,
) -> None:
    """Runs until `stop` is set, then shuts down in order. `on_leading` is called once this operator is the leader.

    Raises if the lease is lost or the server is unsupported: the process should end, or be restarted.
    """
    transport = MeteredTransport(transport)
    client = Client(transport, rate_limiter=RateLimiter(qps=QPS, burst=BURST))
    version = await check_version(client)
    settings = replace(settings, identity=settings.who())
    log.info("operator %s against Kubernetes %s", settings.identity, version)
    if settings.register_crds:
        await register_crds(client)
    else:
        await check_kinds(client)
    await _ensure_namespace(client, settings.namespace)
    settings = replace(settings, pods=replace(settings.pods, resizes=await can_resize(client)))
    identity = None
    if settings.service is not None or settings.webhook is not None or settings.metrics is not None:
        identity = await load_identity(
            client,
            settings.namespace,
            SECRET,
            service_names(settings),
            authority_secret=settings.authority_secret,
        )
    await Operator(transport, client, settings, identity, on_leading=on_leading, clock=clock).run(stop)


async def _ensure_namespace(client: Client, name: str) -> None:
    try:
        await client.get(NAMESPACES, name)
    except ApiError as error:
        if not error.is_not_found:
            raise
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        with contextlib.suppress(ApiError):  # another operator was faster
            await client.create(NAMESPACES, body)
