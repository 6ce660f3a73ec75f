"""One process node that joins a cluster by kubeconfig, in a process of its own."""

import asyncio
import os
import signal
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from edl.embedded.certificates import authority_at
from edl.embedded.home import Home
from edl.embedded.node.credentials import endpoint_tls
from edl.embedded.node.host import HostSettings, node_host
from edl.embedded.node.node import NodeSettings, ProcessNode
from edl.embedded.node.registration import capacity_of
from edl.embedded.node.supervisor.sandbox import MODES
from edl.kube.budget import Budget
from edl.kube.client import Client
from edl.kube.credentials import Account
from edl.kube.kubeconfig import load_account
from edl.kube.transport import HttpTransport


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSettings:
    home: Path
    name: str
    kubeconfig: str | None
    cpu: str
    memory: str
    gpu: int
    resources: Mapping[str, str]
    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, str]]
    sandbox: str
    working_dir: str


async def join(settings: JoinSettings, *, ready: Callable[[], None]) -> None:
    """Until SIGTERM or SIGINT. The node tells the cluster that it stops, and its pods are gone when this returns."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    account = load_account(settings.kubeconfig)
    home = Home(settings.home)
    async with AsyncExitStack() as stack:
        claim = home.claim()
        stack.callback(claim.close)
        client = Client(HttpTransport(account, user_agent="edl-node"), budget=Budget(qps=500, burst=1000))
        stack.push_async_callback(client.close)
        host = await stack.enter_async_context(node_host(client, _host_settings(home, settings, account)))
        trusted = await _authority_of(account)
        own = authority_at(home.pki)
        node = ProcessNode(
            host,
            NodeSettings(
                name=settings.name,
                capacity=capacity_of(
                    1,
                    cpu=settings.cpu,
                    memory=settings.memory,
                    gpu=settings.gpu,
                    resources=settings.resources,
                ),
                labels=settings.labels,
                taints=settings.taints,
            ),
            tls=lambda address: endpoint_tls(own, trusted, address),
        )
        await stack.enter_async_context(node.running())
        stack.push_async_callback(node.leave)
        ready()
        await stop.wait()


def _host_settings(home: Home, settings: JoinSettings, account: Account) -> HostSettings:
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


async def _authority_of(account: Account) -> str:
    """The authority that we trust for the API server is the one whose certificate it must show to us."""
    auth = await account.login(None)
    if not isinstance(auth.tls, ssl.SSLContext):
        return ""
    return "".join(ssl.DER_cert_to_PEM_cert(one) for one in auth.tls.get_ca_certs(binary_form=True))
