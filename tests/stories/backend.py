"""Stages of stories: a cluster with nodes and a working operator, told of through the Kubernetes API alone.

Two are made here. The embedded one is `edl up`'s own. The real one is a Kubernetes API server with its own controllers
and scheduler, which process nodes have joined. In both the operator runs in this process, so that stories can take it
away. A cluster that has its operator in a pod is another `Backend`.
"""

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Protocol

from edl.cli.local.admission import edl_rules
from edl.embedded.cluster import ClusterSettings, running_cluster
from edl.embedded.node.pod.lifecycle import Backoff
from edl.embedded.node.registration import HEARTBEAT_SECONDS
from edl.embedded.server.http.direct import direct_transport
from edl.jobs.core.pods.pod_builder import PodSettings
from edl.kube.auth.kubeconfig import from_kubeconfig
from edl.kube.controllers.lease import LeaseLostError
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ConnectionLostError
from edl.kube.rest.rate_limiter import RateLimiter
from edl.kube.rest.transport import HttpTransport, Request, Response, Transport
from edl.operator.main import run_operator
from edl.operator.resources import NODES, PODS
from edl.operator.settings import BrainSettings, OperatorSettings, ServiceSettings
from tests.stories.processes import kill_pod
from tests.tier_kube.account import operator_kubeconfig


class Backend(Protocol):
    """`shell` is an image whose containers have sh; `python` one that has Python and EDL as well. Stories take place on
    two nodes of four cores; `core` is what one of them is here, in thousandths of a CPU. `pause`: seconds between two
    looks at what is waited for."""

    client: Client
    kubeconfig: Path
    pause: float
    shell: str
    python: str

    @property
    def core(self) -> int: ...

    async def kill_operator(self) -> None:
        """Gone as by kill -9, and another one started in its place."""
        ...

    async def kill_pod(self, namespace: str, name: str) -> None:
        """kill -9 of all that runs in it."""
        ...

    async def add_node(self, name: str, cpu: str) -> None: ...

    async def lose_node(self, name: str) -> None:
        """The machine is gone, with everything on it; nobody tells the cluster."""
        ...

    async def forget_node(self, name: str) -> None:
        """Tells the cluster that the machine will not come back."""
        ...


class Cord:
    """A transport that can be cut, as the network of a process that was killed."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.cut = False

    async def request(self, request: Request) -> Response:
        if self.cut:
            raise ConnectionLostError("cut")
        return await self._inner.request(request)

    def stream(self, request: Request) -> contextlib.AbstractAsyncContextManager[Response]:
        if self.cut:
            raise ConnectionLostError("cut")
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


class ProcessBackend:
    """Pods are processes of this machine; images are names. `nodes` that are added are processes of their own."""

    shell = python = "any"
    core = 1000

    def __init__(
        self,
        client: Client,
        transport: Callable[[], Transport],
        kubeconfig: Path,
        root: Path,
        *,
        lease: float,
        installed: bool = False,
        brain: BrainSettings | None = None,
    ) -> None:
        """`transport` is the operator's. `installed`: the kinds and its rights are there before it is."""
        self.client, self._transport, self.kubeconfig, self._root = client, transport, kubeconfig, root
        self._nodes: dict[str, Process] = {}
        self._operator: asyncio.Task[None] | None = None
        self._lease, self._installed, self._brain = lease, installed, brain
        self.pause = 0.1 if installed else 0.05
        self._cord = Cord(transport())
        self._stop = asyncio.Event()
        self._started = 0

    # The operator.

    async def start_operator(self) -> None:
        self._started += 1
        settings = OperatorSettings(
            identity=f"operator-{os.getpid()}-{self._started}",
            lease=self._lease,
            pods=PodSettings(node_loss_seconds=1, data_root=str(self._root / "data")),
            service=ServiceSettings(host="127.0.0.1", port=0, url="https://127.0.0.1:{port}"),
            register_crds=not self._installed,
            brain=self._brain,
        )
        self._stop, leads = asyncio.Event(), asyncio.Event()
        self._cord = Cord(self._transport())
        self._operator = asyncio.create_task(self._keep_operator(settings, leads.set))
        waiting = asyncio.create_task(leads.wait())
        await asyncio.wait({self._operator, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._operator.done():
            await self._operator

    async def _keep_operator(self, settings: OperatorSettings, on_leading: Callable[[], None]) -> None:
        """One that a busy machine kept from renewing its lease ends, and is started again, as in a Deployment."""
        while True:
            try:
                return await run_operator(self._cord, settings, stop=self._stop, on_leading=on_leading)
            except LeaseLostError:
                if self._stop.is_set():
                    return None
            await self._cord.close()
            self._cord = Cord(self._transport())

    async def kill_operator(self) -> None:
        assert self._operator is not None
        self._cord.cut = True
        self._operator.cancel()
        await asyncio.gather(self._operator, return_exceptions=True)
        await self._cord.close()
        await self.start_operator()

    async def stop(self) -> None:
        self._stop.set()
        try:
            if self._operator is not None:
                await self._operator
        finally:
            await self._cord.close()
            for name in list(self._nodes):
                await self._end(name, Process.terminate)

    # Pods and nodes.

    async def kill_pod(self, namespace: str, name: str) -> None:
        pod = await self.client.get(PODS, name, namespace=namespace)
        assert kill_pod(pod["metadata"]["labels"]["edl.dev/job-uid"], name), f"{name} has no process"

    async def add_node(self, name: str, cpu: str) -> None:
        process = self._nodes[name] = await asyncio.create_subprocess_exec(
            *node_command(self.kubeconfig, name, cpu), stdout=PIPE, env=node_environment(self._root / name)
        )
        assert process.stdout is not None
        assert b"is ready" in await process.stdout.readline()

    async def forget_node(self, name: str) -> None:
        await self.client.delete(NODES, name)

    async def lose_node(self, name: str) -> None:
        await self._end(name, Process.kill)

    async def _end(self, name: str, how: Callable[[Process], None]) -> None:
        process = self._nodes.pop(name)
        if process.returncode is None:
            how(process)
        await process.wait()


def node_command(kubeconfig: Path, name: str, cpu: str) -> list[str]:
    """Says that it is ready on its standard output."""
    command = [sys.executable, "-m", "edl.cli.main", "node", "--kubeconfig", str(kubeconfig)]
    return [*command, "--name", name, "--cpu", cpu, "--memory", "16Gi"]


def node_environment(home: Path) -> dict[str, str]:
    return {**caller(), "EDL_HOME": str(home)}


def caller() -> dict[str, str]:
    """The environment of pods: `edl` is what is tested, whatever else is installed."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"}


@contextlib.asynccontextmanager
async def embedded(
    root: Path,
    *,
    nodes: int = 2,
    cpu: str = "4",
    working_dir: Path = Path("/"),
    heartbeat: float = HEARTBEAT_SECONDS,
    capacity: Mapping[str, str] | None = None,
    brain: BrainSettings | None = None,
) -> AsyncIterator[ProcessBackend]:
    """`capacity`: further resources of each node, by name, or more of those that it has anyway."""
    settings = ClusterSettings(
        home=root / "home",
        nodes=nodes,
        capacity={"cpu": cpu, "memory": "16Gi", "ephemeral-storage": "16Gi", **(capacity or {})},
        admission=edl_rules,
        working_dir=str(working_dir),
        caller=caller(),
        backoff=Backoff(base=0.2, cap=1.0),
        node_grace=12.0,
        heartbeat=heartbeat,
    )
    async with running_cluster(settings) as cluster:
        backend = ProcessBackend(
            cluster.client,
            lambda: direct_transport(cluster.server.api),
            cluster.kubeconfig,
            root,
            lease=6.0,
            brain=brain,
        )
        await backend.start_operator()
        try:
            yield backend
        finally:
            await backend.stop()


@contextlib.asynccontextmanager
async def kubernetes(kubeconfig: Path, root: Path) -> AsyncIterator[ProcessBackend]:
    """A Kubernetes API server that only nodes of ours have joined. The operator has the rights that it has when it is
    installed, and no others."""
    account = await asyncio.to_thread(operator_kubeconfig, kubeconfig, root / "operator.kubeconfig")
    client = Client(HttpTransport(from_kubeconfig([kubeconfig])), rate_limiter=RateLimiter(qps=1000, burst=1000))
    backend = ProcessBackend(
        client, lambda: HttpTransport(from_kubeconfig([account])), kubeconfig, root, lease=6.0, installed=True
    )
    try:
        await backend.start_operator()
        yield backend
    finally:
        await backend.stop()
        await client.close()
