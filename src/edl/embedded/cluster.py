"""The embedded cluster as one object: API server, controllers, pod scheduler and process nodes, in one event loop.

It knows nothing of EDL's kinds. Admission rules for custom resources and the services that run beside the cluster, such
as an operator, are handed to it:

    async with embedded_cluster(home=tmp_path, nodes=2, cpu="4", gpu=2) as cluster:
        await cluster.client.create(...)
        subprocess.run(["kubectl", "--kubeconfig", cluster.kubeconfig, "get", "nodes"])
"""

import asyncio
import logging
import os
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec

from edl.api.labels import LABEL_EMBEDDED
from edl.certificates import Authority
from edl.embedded.certificates import authority_at, write_private
from edl.embedded.controllers.nodes import GRACE_SECONDS
from edl.embedded.controllers.run import controllers
from edl.embedded.home import Claim, Home, PortTakenError, reserve_network
from edl.embedded.kubeconfig import kubeconfig
from edl.embedded.node.endpoint_tls import endpoint_tls
from edl.embedded.node.host import HostSettings, NodeHost, node_host
from edl.embedded.node.node import NodeSettings, ProcessNode
from edl.embedded.node.pod.lifecycle import Backoff
from edl.embedded.node.registration import HEARTBEAT_SECONDS, DeclaredCapacity, capacity_of
from edl.embedded.node.supervisor.sandbox import MODES
from edl.embedded.podscheduler.scheduler import PodScheduler
from edl.embedded.resources import NODES
from edl.embedded.server import ADMIN, Server
from edl.embedded.server.authorization import PodGroups, no_groups
from edl.embedded.server.crds.custom import CustomAdmission, admit_all
from edl.embedded.server.http.direct import direct_transport
from edl.embedded.streaming.streams import NODE_CLIENT
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError
from edl.kube.rest.rate_limiter import RateLimiter
from edl.serving.lasting_port import is_free, lasting_port

log = logging.getLogger(__name__)

_SERVICE_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")


class ClusterSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Every node has the same `capacity`. `admission`: rules for custom resources beyond their schemas,
    `pod_groups`: groups of those that tokens of pods open."""

    home: Path
    nodes: int = 1
    capacity: Mapping[str, str]
    port: int = 0
    admission: CustomAdmission = admit_all
    pod_groups: PodGroups = no_groups
    modes: Sequence[str] = MODES
    working_dir: str = "/"
    caller: Mapping[str, str] = msgspec.field(default_factory=lambda: dict(os.environ))
    node_grace: float = GRACE_SECONDS
    heartbeat: float = HEARTBEAT_SECONDS
    job_backoff: float = 10.0
    backoff: Backoff = msgspec.field(default_factory=Backoff)
    shutdown_grace: float = 2.0


class EmbeddedCluster(msgspec.Struct):
    """`client` speaks straight to the API server; everybody else uses `kubeconfig`."""

    client: Client
    server: Server
    host: NodeHost
    kubeconfig: Path
    url: str
    token: str
    nodes: list[ProcessNode]
    home: Home


Service = Callable[[EmbeddedCluster], AbstractAsyncContextManager[object]]
"""Runs beside a cluster that is ready, and is ready itself once entered; it ends before the cluster does."""


@asynccontextmanager
async def embedded_cluster(
    *,
    home: Path,
    nodes: int = 1,
    cpu: str = "",
    memory: str = "",
    disk: str = "",
    gpu: int = 0,
    resources: Mapping[str, str] | None = None,
    admission: CustomAdmission = admit_all,
    pod_groups: PodGroups = no_groups,
    services: Sequence[Service] = (),
    modes: Sequence[str] = MODES,
    working_dir: str = "/",
    backoff: Backoff | None = None,
    job_backoff: float = 10.0,
    node_grace: float = GRACE_SECONDS,
    heartbeat: float = HEARTBEAT_SECONDS,
) -> AsyncIterator[EmbeddedCluster]:
    """A whole cluster, ready: nodes are Ready, and so are the services."""
    declared = DeclaredCapacity(cpu=cpu, memory=memory, disk=disk, gpu=gpu, resources=resources or {})
    await asyncio.to_thread(home.mkdir, parents=True, exist_ok=True)
    settings = ClusterSettings(
        home=home,
        nodes=nodes,
        capacity=capacity_of(nodes, directory=home, declared=declared),
        admission=admission,
        pod_groups=pod_groups,
        modes=modes,
        working_dir=working_dir,
        backoff=backoff or Backoff(),
        job_backoff=job_backoff,
        node_grace=node_grace,
        heartbeat=heartbeat,
    )
    async with running_cluster(settings, services=services) as cluster:
        yield cluster


@asynccontextmanager
async def running_cluster(
    settings: ClusterSettings, *, services: Sequence[Service] = (), claim: Claim | None = None
) -> AsyncIterator[EmbeddedCluster]:
    """`claim`: the home is claimed already. HomeInUseError if somebody else has it."""
    home = Home(settings.home)
    async with AsyncExitStack() as stack:
        stack.callback((claim or home.claim()).close)
        authority = await asyncio.to_thread(authority_at, home.pki)
        server = await stack.enter_async_context(_server(home, authority, settings, stack))
        client = Client(
            direct_transport(server.api), rate_limiter=RateLimiter(qps=100_000, burst=100_000), field_manager="edl-up"
        )
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
        cluster = EmbeddedCluster(client, server, host, home.kubeconfig, server.url, home.token, nodes, home)
        for service in services:
            await stack.enter_async_context(service(cluster))
        yield cluster


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
        port=_named_port(settings.port) if settings.port else _port_of(home),
        tls=authority.server_context(authority.issue("kube-apiserver", hosts=hosts)),
        root_ca=authority.pair.certificate.decode(),
        node_tls=_node_client(authority),
        service_network=network,
        custom_admission=settings.admission,
        pod_groups=settings.pod_groups,
        default_tokens=False,
    )


def _node_client(authority: Authority) -> ssl.SSLContext:
    """How the API server calls nodes. It shows who it is; a node's certificate is not checked, as in Kubernetes by
    default: a node that joined later (`edl node`) has one that it made itself."""
    context = authority.client_context(authority.issue(NODE_CLIENT, organizations=["system:masters"]))
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _named_port(port: int) -> int:
    if not is_free("127.0.0.1", port):
        raise PortTakenError(f"port {port} of this machine is taken; name another one, or none for any that is free")
    return port


def _port_of(home: Home) -> int:
    """Where it was the last time, else one that it can have again."""
    last = home.last_port()
    return last if last and is_free("127.0.0.1", last) else lasting_port("127.0.0.1")


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
                labels={LABEL_EMBEDDED: "true"},
                first_device=number * gpus,
                backoff=settings.backoff,
                shutdown_grace=settings.shutdown_grace,
                heartbeat=settings.heartbeat,
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
    for node in (await client.list(NODES, labels={LABEL_EMBEDDED: "true"})).items:
        name = node["metadata"]["name"]
        if name not in present:
            try:
                await client.delete(NODES, name)
            except ApiError as error:
                if not error.is_not_found:
                    raise
