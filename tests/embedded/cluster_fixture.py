"""An API server in this process, and clients of it: what tests of controllers, scheduler and nodes stand on."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edl.embedded.node.host import HostSettings, NodeHost, node_host
from edl.embedded.node.node import NodeSettings, ProcessNode
from edl.embedded.node.pod.lifecycle import Backoff
from edl.embedded.server import ADMIN, Server
from edl.kube.auth.credentials import Auth, ClientConfig, fixed_auth
from edl.kube.auth.kubeconfig import load_client_config
from edl.kube.rest.client import Client
from edl.kube.rest.rate_limiter import RateLimiter
from edl.kube.rest.resource import Resource
from edl.kube.rest.transport import HttpTransport
from tests.embedded import real_server

PODS = Resource("", "v1", "pods", "Pod")
TOKEN = "test-token"
PATIENCE = 20.0


@asynccontextmanager
async def api_server() -> AsyncIterator[Client]:
    if real_server.KUBECONFIG:
        async with client_of(load_client_config(real_server.KUBECONFIG)) as client:
            await real_server.prepare(client)
            yield client
            await real_server.empty(client)
        return
    async with Server(None, tokens={TOKEN: ADMIN}) as server:
        account = ClientConfig(server.url, fixed_auth(Auth({"Authorization": f"Bearer {TOKEN}"})))
        async with client_of(account) as client:
            yield client


@asynccontextmanager
async def client_of(account: ClientConfig) -> AsyncIterator[Client]:
    client = Client(HttpTransport(account), rate_limiter=RateLimiter(qps=10_000, burst=10_000))
    try:
        yield client
    finally:
        await client.close()


@dataclass(slots=True)
class Cluster:
    """Short ways to say what stories do."""

    client: Client
    host: NodeHost | None = None
    node: ProcessNode | None = None
    root: Path = field(default_factory=Path)

    async def create(self, resource: Resource, body: Mapping[str, Any], namespace: str | None = "default") -> Any:
        return await self.client.create(resource, body, namespace=namespace if resource.namespaced else None)

    async def get(self, resource: Resource, name: str, namespace: str = "default") -> Any:
        """The object, or None."""
        return await self.client.find(resource, name, namespace=namespace if resource.namespaced else None)

    async def until(
        self, resource: Resource, name: str, condition: Callable[[Any], Any], namespace: str = "default"
    ) -> Any:
        """The object once the condition holds; it is shown if that never happens."""
        found: Any = None

        async def look() -> bool:
            nonlocal found
            found = await self.get(resource, name, namespace)
            return bool(condition(found))

        try:
            await eventually(look)
        except TimeoutError:
            raise AssertionError(f"{resource.kind} {name} never became what was waited for: {found}") from None
        return found

    async def pod(self, name: str, node: str = "n1", **spec: Any) -> Any:
        return await self.create(PODS, pod(name, node=node, **spec))

    async def phase(self, name: str, phase: str) -> Any:
        return await self.until(PODS, name, lambda pod: pod is not None and pod.get("status", {}).get("phase") == phase)

    async def gone(self, resource: Resource, name: str, namespace: str = "default") -> None:
        await self.until(resource, name, lambda found: found is None, namespace)


async def eventually(condition: Callable[[], Awaitable[bool]], patience: float = PATIENCE) -> None:
    async with asyncio.timeout(patience):
        while not await condition():
            await asyncio.sleep(real_server.PAUSE)


def pod(name: str, *, node: str = "", script: str = "", metadata: Mapping[str, Any] | None = None, **spec: Any) -> Any:
    """A pod; `script` is what its one container runs by sh, and `container` more of that container's fields."""
    container = {"name": "main", "image": "any", **spec.pop("container", {})}
    if script:
        container["command"] = ["sh", "-c", script]
    body = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 5, **spec}
    body.setdefault("automountServiceAccountToken", False)
    if node:
        body["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **(metadata or {})}, "spec": body}


@asynccontextmanager
async def cluster_with_node(
    root: Path, *, capacity: Mapping[str, str] | None = None, modes: tuple[str, ...] = ("none",), owner: str = ""
) -> AsyncIterator[Cluster]:
    async with (
        api_server() as client,
        joined_node(client, root, capacity=capacity, modes=modes, owner=owner) as cluster,
    ):
        yield cluster


@asynccontextmanager
async def joined_node(
    client: Client,
    root: Path,
    *,
    name: str = "n1",
    capacity: Mapping[str, str] | None = None,
    modes: tuple[str, ...] = ("none",),
    owner: str = "",
    heartbeat: float = 10.0,
) -> AsyncIterator[Cluster]:
    settings = HostSettings(
        root=root, owner=owner or f"test-{os.urandom(4).hex()}", caller=dict(os.environ), working_dir="/", modes=modes
    )
    offered = {"cpu": "8", "memory": "8Gi", "nvidia.com/gpu": "4", **(capacity or {})}
    async with contextlib.AsyncExitStack() as stack:
        host = await stack.enter_async_context(node_host(client, settings))
        node = ProcessNode(
            host, NodeSettings(name=name, capacity=offered, backoff=Backoff(base=0.2, cap=0.4), heartbeat=heartbeat)
        )
        await stack.enter_async_context(node.running())
        yield Cluster(client, host, node, root)
