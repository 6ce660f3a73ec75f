"""Joins one process node to a cluster by kubeconfig, in a process of its own (`edl node`)."""

import asyncio
import os
import signal
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from edl.embedded.certificates import authority_at
from edl.embedded.home import Home
from edl.embedded.node.endpoint_tls import endpoint_tls
from edl.embedded.node.host import HostSettings, node_host
from edl.embedded.node.node import NodeSettings, ProcessNode
from edl.embedded.node.registration import DeclaredCapacity, capacity_of
from edl.embedded.node.supervisor.sandbox import MODES
from edl.kube.auth.credentials import ClientConfig
from edl.kube.auth.kubeconfig import load_client_config
from edl.kube.rest.client import Client
from edl.kube.rest.rate_limiter import RateLimiter
from edl.kube.rest.transport import HttpTransport


class JoinSettings(msgspec.Struct, frozen=True, kw_only=True):
    home: Path
    name: str
    kubeconfig: str | None
    capacity: DeclaredCapacity
    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, str]]
    sandbox: str
    working_dir: str


async def join(settings: JoinSettings, *, ready: Callable[[], None]) -> None:
    """Until SIGTERM or SIGINT. The node reports that it stops, and its pods are gone when this returns."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    account = load_client_config(settings.kubeconfig)
    home = Home(settings.home)
    async with AsyncExitStack() as stack:
        claim = home.claim()
        stack.callback(claim.close)
        client = Client(HttpTransport(account, user_agent="edl-node"), rate_limiter=RateLimiter(qps=500, burst=1000))
        stack.push_async_callback(client.close)
        host = await stack.enter_async_context(node_host(client, _host_settings(home, settings, account)))
        trusted = await _authority_of(account)
        own = authority_at(home.pki)
        node = ProcessNode(
            host,
            NodeSettings(
                name=settings.name,
                capacity=capacity_of(1, directory=home.path, declared=settings.capacity),
                labels=settings.labels,
                taints=settings.taints,
            ),
            tls=lambda address: endpoint_tls(own, trusted, address),
        )
        await stack.enter_async_context(node.running())
        stack.push_async_callback(node.leave)
        ready()
        await stop.wait()


def _host_settings(home: Home, settings: JoinSettings, account: ClientConfig) -> HostSettings:
    server = urlsplit(account.server)
    return HostSettings(
        root=home.path,
        owner=home.owner,
        caller=dict(os.environ),
        working_dir=settings.working_dir,
        variables={
            "KUBERNETES_SERVICE_HOST": server.hostname or "",
            "KUBERNETES_SERVICE_PORT": str(server.port or 443),
        },
        modes=(settings.sandbox,) if settings.sandbox else MODES,
    )


async def _authority_of(account: ClientConfig) -> str:
    """The authority that we trust for the API server is the one whose certificate it must show to us."""
    auth = await account.login(None)
    if not isinstance(auth.tls, ssl.SSLContext):
        return ""
    return "".join(ssl.DER_cert_to_PEM_cert(one) for one in auth.tls.get_ca_certs(binary_form=True))
