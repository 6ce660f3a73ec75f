"""Clusters for commands: they run in a thread of their own, because a command runs a loop of its own."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from edl.cli.local.admission import edl_rules
from edl.cli.local.services import operator_with_brain
from edl.cli.main import main
from edl.embedded.cluster import embedded_cluster
from edl.embedded.kubeconfig import kubeconfig
from edl.embedded.node.pod.lifecycle import Backoff
from edl.embedded.server import ADMIN, Server
from edl.embedded.server.http.direct import direct_transport
from edl.kube.rest.client import Client
from edl.kube.rest.rate_limiter import RateLimiter
from edl.operator.crds import register_crds

T = TypeVar("T")


class Cluster:
    """`do(work)` runs work in the cluster's loop; `edl(words)` is a command against it."""

    def __init__(self, client: Client, config: Path, loop: asyncio.AbstractEventLoop) -> None:
        self.client, self.config, self.loop = client, config, loop

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def edl(self, *words: str) -> int:
        return main([*words, "--kubeconfig", str(self.config)])


@contextmanager
def in_thread(make: Callable[[], AbstractAsyncContextManager[tuple[Client, Path]]]) -> Iterator[Cluster]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def do(work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, loop).result(60)

    async def end(manager: AbstractAsyncContextManager[object]) -> None:
        await manager.__aexit__(None, None, None)

    async def begin(manager: AbstractAsyncContextManager[T]) -> T:
        return await manager.__aenter__()

    manager = make()
    try:
        client, config = do(begin(manager))
        try:
            yield Cluster(client, config, loop)
        finally:
            do(end(manager))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@asynccontextmanager
async def api_alone(root: Path) -> AsyncIterator[tuple[Client, Path]]:
    async with Server(None, tokens={"t": ADMIN}, custom_admission=edl_rules) as server:
        client = Client(direct_transport(server.api), rate_limiter=RateLimiter(qps=10_000, burst=10_000))
        await register_crds(client)
        config = root / "kubeconfig"
        config.write_bytes(kubeconfig(server.url, b"", "t"))
        yield client, config


@asynccontextmanager
async def whole(root: Path) -> AsyncIterator[tuple[Client, Path]]:
    async with embedded_cluster(
        admission=edl_rules,
        services=[operator_with_brain],
        home=root,
        nodes=2,
        cpu="4",
        memory="4Gi",
        modes=("none",),
        working_dir=str(root),
        backoff=Backoff(base=0.2),
    ) as cluster:
        yield cluster.client, cluster.kubeconfig


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An API server and our kinds; nothing happens by itself."""
    root = tmp_path_factory.mktemp("api")
    with in_thread(lambda: api_alone(root)) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A whole cluster with two nodes of four cores."""
    root = tmp_path_factory.mktemp("cluster")
    with in_thread(lambda: whole(root)) as cluster:
        yield cluster
