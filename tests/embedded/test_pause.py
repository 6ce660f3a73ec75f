"""Nodes and whole clusters that were silent for a while: they come back by themselves, with their pods."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from edl.embedded.controllers.nodes import WatchedTime
from edl.embedded.controllers.run import controllers
from edl.embedded.server import ADMIN, Server
from edl.kube.auth.credentials import Auth, ClientConfig, fixed_auth
from edl.kube.auth.kubeconfig import load_client_config
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ConnectionLostError
from edl.kube.rest.rate_limiter import RateLimiter
from edl.kube.rest.resource import Resource
from edl.kube.rest.transport import HttpTransport, Request, Response, Transport
from tests.embedded.cluster_fixture import PODS, TOKEN, Cluster, api_server, client_of, eventually, joined_node, pod

NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
FOREVER = "while :; do sleep 0.1; done"
HASTY = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
    for key in ("unreachable", "not-ready")
]
PATIENT = [{"key": "node.kubernetes.io/unreachable", "operator": "Exists"}]
GRACE, HEARTBEAT = 2.0, 0.2
CLUSTER = f"""
import asyncio, sys
from pathlib import Path
from edl.embedded.cluster import embedded_cluster
async def main():
    async with embedded_cluster(home=Path(sys.argv[1]), cpu="4", memory="4Gi", modes=("none",),
                                node_grace={GRACE}, heartbeat={HEARTBEAT}):
        print("ready", flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""


def conditions(one: Any) -> dict[str, Any]:
    return {condition["type"]: condition for condition in one["status"].get("conditions") or ()}


def ready(one: Any) -> bool:
    return bool(conditions(one).get("Ready", {}).get("status") == "True")


def untainted(one: Any) -> bool:
    return not one["spec"].get("taints")


def test_time_that_nobody_watched_does_not_count() -> None:
    watched = WatchedTime(2.0)
    assert [watched.at(now) for now in (100.0, 101.0, 102.5, 162.5, 163.0)] == [0.0, 1.0, 2.5, 4.5, 5.0]


@pytest.mark.case("attack-1")
async def test_a_node_posts_its_status_again_when_the_server_has_another(tmp_path: Path) -> None:
    lost = {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    disk = {"type": "DiskPressure", "status": "False", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    status = {"conditions": [lost, disk], "allocatable": {"cpu": "1"}}
    async with api_server() as client, joined_node(client, tmp_path, heartbeat=HEARTBEAT) as cluster:
        await client.patch(NODES, "n1", {"status": status}, kind="strategic", subresource="status")
        found = await cluster.until(NODES, "n1", ready)
        assert found["status"]["allocatable"]["cpu"] == "8"
        assert conditions(found)["Ready"]["lastTransitionTime"] > "2020-01-01T00:00:00Z"
        assert conditions(found)["DiskPressure"]["lastTransitionTime"] == "2020-01-01T00:00:00Z"


async def test_a_status_that_is_right_is_not_posted_at_every_heartbeat(tmp_path: Path) -> None:
    leases = Resource("coordination.k8s.io", "v1", "leases", "Lease")
    async with api_server() as client, joined_node(client, tmp_path, heartbeat=0.05) as cluster:
        before = await cluster.get(NODES, "n1")
        seen = set()

        async def beaten() -> bool:
            lease = await cluster.get(leases, "n1", "kube-node-lease")
            seen.add(lease["spec"]["renewTime"])
            return len(seen) > 4

        await eventually(beaten)
        assert (await cluster.get(NODES, "n1"))["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_a_node_that_leaves_is_not_ready_again(tmp_path: Path) -> None:
    async with api_server() as client, joined_node(client, tmp_path, heartbeat=0.05) as cluster:
        assert cluster.node is not None
        await cluster.node.leave()
        left = await cluster.get(NODES, "n1")
        await client.patch(NODES, "n1", {"status": {"allocatable": {"cpu": "1"}}}, subresource="status")
        again = await cluster.until(NODES, "n1", lambda one: one["status"]["allocatable"]["cpu"] == "8")
        assert conditions(left)["Ready"]["reason"] == conditions(again)["Ready"]["reason"] == "NodeShutdown"


class CuttableTransport:
    """A node's way to the cluster, that can be cut."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.cut = False

    async def request(self, request: Request) -> Response:
        if self.cut:
            raise ConnectionLostError("cut", sent=False)
        return await self._inner.request(request)

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response]:
        if self.cut:
            raise ConnectionLostError("cut", sent=False)
        return self._inner.stream(request)

    async def close(self) -> None:
        await self._inner.close()


@pytest.mark.case("attack-1")
async def test_a_node_that_was_cut_off_comes_back_with_its_pods(tmp_path: Path) -> None:
    async with Server(None, tokens={TOKEN: ADMIN}) as server, AsyncExitStack() as stack:
        account = ClientConfig(server.url, fixed_auth(Auth({"Authorization": f"Bearer {TOKEN}"})))
        client = await stack.enter_async_context(client_of(account))
        await stack.enter_async_context(controllers(client, only=["node-lifecycle"], node_grace=1.0))
        way = CuttableTransport(HttpTransport(account))
        own = Client(way, rate_limiter=RateLimiter(qps=10_000, burst=10_000))
        stack.push_async_callback(own.close)
        async with joined_node(own, tmp_path, heartbeat=HEARTBEAT):
            cluster = Cluster(client)
            await cluster.pod("p", script=FOREVER, tolerations=PATIENT)
            await cluster.until(PODS, "p", ready)
            way.cut = True
            await cluster.until(NODES, "n1", lambda one: conditions(one)["Ready"]["status"] == "Unknown")
            await cluster.until(NODES, "n1", lambda one: not untainted(one))
            await cluster.until(PODS, "p", lambda one: not ready(one))
            way.cut = False
            await cluster.until(NODES, "n1", lambda one: ready(one) and untainted(one))
            await cluster.until(PODS, "p", ready)


@asynccontextmanager
async def cluster_process(home: Path) -> AsyncIterator[tuple[int, Cluster]]:
    """A whole cluster in a process of its own; its pid and a client."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CLUSTER, str(home), stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            assert await process.stdout.readline() == b"ready\n"
        async with client_of(load_client_config(home / "kubeconfig")) as client:
            yield process.pid, Cluster(client)
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        await process.wait()


@pytest.mark.case("attack-1")
async def test_a_cluster_that_slept_finds_its_pods_running(tmp_path: Path) -> None:
    async with cluster_process(tmp_path) as (pid, cluster):
        await cluster.create(PODS, pod("before", script=FOREVER, tolerations=HASTY))
        before = await cluster.phase("before", "Running")
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(2 * GRACE)  # how long the pause is, not what it waits for
        os.kill(pid, signal.SIGCONT)
        await cluster.create(PODS, pod("after", script=FOREVER, tolerations=HASTY))
        await cluster.phase("after", "Running")
        again = await cluster.get(PODS, "before")
        assert again["metadata"]["uid"] == before["metadata"]["uid"]
        assert "deletionTimestamp" not in again["metadata"]
        assert await cluster.until(NODES, "node-0", lambda one: ready(one) and untainted(one))
