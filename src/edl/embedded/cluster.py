"""The embedded cluster as one object: API server, controllers, pod scheduler, process nodes and operator, in one event
loop.

`edl up` runs it in the background; tests and the demo use it as it is:

    async with embedded_cluster(home=tmp_path, nodes=2, cpu="4", gpu=2) as cluster:
        await cluster.client.create(...)
        subprocess.run(["kubectl", "--kubeconfig", cluster.kubeconfig, "get", "nodes"])
"""

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from edl.certificates import Authority
from edl.embedded.brain import brain
from edl.embedded.certificates import authority_at, write_private
from edl.embedded.controllers.nodes import GRACE_SECONDS
from edl.embedded.controllers.run import controllers
from edl.embedded.home import Claim, Home, reserve_network
from edl.embedded.kubeconfig import kubeconfig
from edl.embedded.node.credentials import endpoint_tls
from edl.embedded.node.host import HostSettings, NodeHost, node_host
from edl.embedded.node.lifecycle import Backoff
from edl.embedded.node.node import NodeSettings, ProcessNode
from edl.embedded.node.registration import NODES, capacity_of
from edl.embedded.node.supervisor.sandbox import MODES
from edl.embedded.operator import operator
from edl.embedded.podscheduler.scheduler import PodScheduler
from edl.embedded.server import ADMIN, Server
from edl.embedded.server.direct import direct_transport
from edl.embedded.streams import NODE_CLIENT
from edl.kube.budget import Budget
from edl.kube.client import Client
from edl.kube.errors import ApiError

log = logging.getLogger(__name__)

UP_LABEL = "edl.dev/embedded"
_SERVICE_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """Every node has the same `capacity`. `operator` False leaves EDL's own operator out."""

    home: Path
    nodes: int = 1
    capacity: Mapping[str, str]
    port: int = 0
    operator: bool = True
    modes: Sequence[str] = MODES
    working_dir: str = "/"
    caller: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    node_grace: float = GRACE_SECONDS
    job_backoff: float = 10.0
    backoff: Backoff = field(default_factory=Backoff)
    shutdown_grace: float = 2.0


@dataclass(slots=True)
class EmbeddedCluster:
    """`client` speaks straight to the API server; everybody else uses `kubeconfig`."""

    client: Client
    server: Server
    host: NodeHost
    kubeconfig: Path
    url: str
    token: str
    nodes: list[ProcessNode]


@asynccontextmanager
async def embedded_cluster(
    *,
    home: Path,
    nodes: int = 1,
    cpu: str = "",
    memory: str = "",
    gpu: int = 0,
    resources: Mapping[str, str] | None = None,
    operator: bool = True,
    modes: Sequence[str] = MODES,
    working_dir: str = "/",
    backoff: Backoff | None = None,
    job_backoff: float = 10.0,
    node_grace: float = GRACE_SECONDS,
) -> AsyncIterator[EmbeddedCluster]:
    """A whole cluster, ready: nodes are Ready, our kinds are served, the operator leads."""
    settings = ClusterSettings(
        home=home,
        nodes=nodes,
        capacity=capacity_of(nodes, cpu=cpu, memory=memory, gpu=gpu, resources=resources or {}),
        operator=operator,
        modes=modes,
        working_dir=working_dir,
        backoff=backoff or Backoff(),
        job_backoff=job_backoff,
        node_grace=node_grace,
    )
    async with running_cluster(settings) as cluster:
        yield cluster


@asynccontextmanager
async def running_cluster(settings: ClusterSettings, *, claim: Claim | None = None) -> AsyncIterator[EmbeddedCluster]:
    """`claim`: the home is ours already. HomeInUseError if it is somebody else's."""
    home = Home(settings.home)
    async with AsyncExitStack() as stack:
        stack.callback((claim or home.claim()).close)
        authority = await asyncio.to_thread(authority_at, home.pki)
        server = await stack.enter_async_context(_server(home, authority, settings, stack))
        client = Client(direct_transport(server.api), budget=Budget(qps=100_000, burst=100_000), field_manager="edl-up")
        write_private(home.kubeconfig, kubeconfig(server.url, authority.pair.certificate, home.token))
        await stack.enter_async_context(
            controllers(
                client,
                authority=authority.pair.certificate.decode(),
                node_grace=settings.node_grace,
                job_backoff=settings.job_backoff,
            )
        )
        await stack.enter_async_context(PodScheduler(client).running())
        host = await stack.enter_async_context(node_host(client, _host_settings(home, settings, server)))
        nodes = await _start_nodes(host, settings, authority, stack)
        await _forget_other_nodes(client, {node.name for node in nodes})
        if settings.operator:
            adviser = await stack.enter_async_context(brain(home.path))
            await stack.enter_async_context(operator(direct_transport(server.api), data=home.data, brain=adviser))
        yield EmbeddedCluster(client, server, host, home.kubeconfig, server.url, home.token, nodes)


def _server(home: Home, authority: Authority, settings: ClusterSettings, stack: AsyncExitStack) -> Server:
    network = home.network
    reservation = reserve_network(network)
    if reservation is None:
        log.warning("the addresses %s of this cluster's services are used by another cluster on this machine", network)
    else:
        stack.callback(reservation.close)
    first = network.partition("/")[0].removesuffix(".0") + ".1"
    hosts = ["127.0.0.1", "localhost", first, *_SERVICE_NAMES]
    return Server(
        home.store,
        tokens={home.token: ADMIN},
        port=_free_port(settings.port or home.last_port()),
        tls=authority.server_context(authority.issue("kube-apiserver", hosts=hosts)),
        root_ca=authority.pair.certificate.decode(),
        node_tls=_node_client(authority),
        service_network=network,
    )


def _node_client(authority: Authority) -> ssl.SSLContext:
    """How the API server calls nodes. It shows who it is; a node's certificate is not checked, as in Kubernetes by
    default: a node that joined later (`edl node`) has one that it made itself."""
    context = authority.client_context(authority.issue(NODE_CLIENT, organizations=["system:masters"]))
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _free_port(wanted: int) -> int:
    """The port if it is free, else 0: any."""
    if wanted:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", wanted))
            except OSError:
                return 0
    return wanted


def _host_settings(home: Home, settings: ClusterSettings, server: Server) -> HostSettings:
    return HostSettings(
        root=home.path,
        owner=home.owner,
        caller=settings.caller,
        working_dir=settings.working_dir,
        variables={"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server.port)},
        modes=settings.modes,
    )


async def _start_nodes(
    host: NodeHost, settings: ClusterSettings, authority: Authority, stack: AsyncExitStack
) -> list[ProcessNode]:
    gpus = int(settings.capacity.get("nvidia.com/gpu", "0"))
    nodes = [
        ProcessNode(
            host,
            NodeSettings(
                name=f"node-{number}",
                capacity=settings.capacity,
                labels={UP_LABEL: "true"},
                first_device=number * gpus,
                backoff=settings.backoff,
                shutdown_grace=settings.shutdown_grace,
            ),
            tls=lambda address: endpoint_tls(authority, authority.pair.certificate.decode(), address),
        )
        for number in range(settings.nodes)
    ]
    for node in nodes:
        await stack.enter_async_context(node.running())
    return nodes


async def _forget_other_nodes(client: Client, present: set[str]) -> None:
    """Nodes of an earlier `edl up` with more of them: their pods cannot come back."""
    for node in (await client.list(NODES, labels={UP_LABEL: "true"})).items:
        name = node["metadata"]["name"]
        if name not in present:
            try:
                await client.delete(NODES, name)
            except ApiError as error:
                if not error.is_not_found:
                    raise
