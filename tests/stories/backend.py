"""Where stories take place: a cluster with nodes and a working operator, told of through the Kubernetes API alone.

The embedded one is `edl up`'s own, with the operator in this process so that stories can take it away. On a real
cluster the operator is installed there, and only what every cluster can do is asked for.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

from edl.embedded.cluster import ClusterSettings, EmbeddedCluster, running_cluster
from edl.embedded.node.lifecycle import Backoff
from edl.embedded.server.direct import direct_transport
from edl.jobs.pods import PodSettings
from edl.kube.client import Client
from edl.kube.errors import ConnectionLostError
from edl.kube.transport import Request, Response, Transport
from edl.operator.main import run_operator
from edl.operator.settings import OperatorSettings, ServiceSettings


class Backend(Protocol):
    """`shell` is an image whose containers have sh; `python` one that has Python and EDL as well."""

    client: Client
    shell: str
    python: str

    async def kill_operator(self) -> None:
        """Gone as by kill -9, and another one started in its place."""
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


class EmbeddedBackend:
    shell = python = "any"

    def __init__(self, cluster: EmbeddedCluster, data: Path) -> None:
        self.cluster, self.client, self._data = cluster, cluster.client, data
        self._operator: asyncio.Task[None] | None = None
        self._cord: Cord | None = None
        self._stop = asyncio.Event()
        self._started = 0

    async def start_operator(self) -> None:
        self._started += 1
        settings = OperatorSettings(
            identity=f"operator-{self._started}",
            lease=2.0,
            pods=PodSettings(node_loss_seconds=1, data_root=str(self._data)),
            service=ServiceSettings(host="127.0.0.1", port=0, url="https://127.0.0.1:{port}"),
        )
        self._stop, leads = asyncio.Event(), asyncio.Event()
        self._cord = Cord(direct_transport(self.cluster.server.api))
        self._operator = asyncio.create_task(run_operator(self._cord, settings, stop=self._stop, leads=leads.set))
        waiting = asyncio.create_task(leads.wait())
        await asyncio.wait({self._operator, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self._operator.done():
            await self._operator

    async def stop_operator(self) -> None:
        self._stop.set()
        if self._operator is not None:
            await self._operator

    async def kill_operator(self) -> None:
        assert self._operator is not None
        assert self._cord is not None
        self._cord.cut = True
        self._operator.cancel()
        await asyncio.gather(self._operator, return_exceptions=True)
        await self.start_operator()


@contextlib.asynccontextmanager
async def embedded(root: Path, *, nodes: int = 2, cpu: str = "4") -> AsyncIterator[EmbeddedBackend]:
    caller = dict(os.environ)
    caller["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{caller.get('PATH', '')}"
    settings = ClusterSettings(
        home=root / "home",
        nodes=nodes,
        capacity={"cpu": cpu, "memory": "16Gi"},
        operator=False,
        caller=caller,
        backoff=Backoff(base=0.2, cap=1.0),
        node_grace=12.0,
    )
    async with running_cluster(settings) as cluster:
        backend = EmbeddedBackend(cluster, root / "data")
        await backend.start_operator()
        try:
            yield backend
        finally:
            await backend.stop_operator()
