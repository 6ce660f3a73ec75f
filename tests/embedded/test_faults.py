"""The API server goes away and comes back: pods run on, and what happened meanwhile is told afterwards."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from edl.embedded.controllers.run import controllers
from edl.embedded.node.supervisor import processes
from edl.embedded.podscheduler.scheduler import PodScheduler
from edl.embedded.server import ADMIN, Server
from edl.kube.auth.credentials import Auth, ClientConfig, fixed_auth
from edl.kube.rest.client import Client
from tests.embedded.cluster_fixture import PODS, TOKEN, Cluster, client_of, eventually, joined_node, pod
from tests.embedded.controllers.stage import REPLICA_SETS


class Fragile:
    """An API server that can be stopped and started again at the same place."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._port = 0
        self._server: Server | None = None

    async def start(self) -> None:
        self._server = Server(self._store, port=self._port, tokens={TOKEN: ADMIN})
        await self._server.start()
        self._port = self._server.port

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop()
            self._server = None

    @property
    def account(self) -> ClientConfig:
        return ClientConfig(f"http://127.0.0.1:{self._port}", fixed_auth(Auth({"Authorization": f"Bearer {TOKEN}"})))


@asynccontextmanager
async def fragile(tmp_path: Path) -> AsyncIterator[tuple[Fragile, Client]]:
    server = Fragile(tmp_path / "store.db")
    await server.start()
    try:
        async with client_of(server.account) as client:
            yield server, client
    finally:
        await server.stop()


async def test_pods_outlive_an_outage_and_their_end_is_told_after_it(tmp_path: Path) -> None:
    async with fragile(tmp_path) as (server, client), joined_node(client, tmp_path / "node") as cluster:
        script = f"while ! test -e {tmp_path}/go; do sleep 0.05; done; exit 5"
        await cluster.pod("ends", script=script)
        await cluster.pod("stays", script="while :; do sleep 0.1; done")
        await cluster.phase("ends", "Running")
        stays = await cluster.phase("stays", "Running")
        assert cluster.node is not None
        pids = {name: pid_of(cluster, name) for name in ("ends", "stays")}
        await server.stop()
        (tmp_path / "go").touch()

        async def ended() -> bool:
            return pids["ends"] not in processes.table()

        await eventually(ended)
        assert pids["stays"] in processes.table()
        await server.start()
        found = await cluster.phase("ends", "Failed")
        assert found["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 5
        again = await cluster.phase("stays", "Running")
        assert again["status"]["containerStatuses"] == stays["status"]["containerStatuses"]
        assert pids["stays"] in processes.table()


def pid_of(cluster: Cluster, name: str) -> int:
    assert cluster.node is not None
    worker = cluster.node.worker("default", name)
    run = worker.running("main") if worker is not None else None
    assert run is not None
    return run.running.pid


async def test_controllers_and_scheduler_go_on_after_an_outage(tmp_path: Path) -> None:
    async with (
        fragile(tmp_path) as (server, client),
        controllers(client, only=["replicaset", "garbage-collector", "node-lifecycle"]),
        PodScheduler(client).running(),
        joined_node(client, tmp_path / "node") as cluster,
    ):
        template: dict[str, Any] = {"metadata": {"labels": {"app": "x"}}, "spec": pod("x", script="sleep 1000")["spec"]}
        template["spec"]["restartPolicy"] = "Always"
        spec = {"replicas": 1, "selector": {"matchLabels": {"app": "x"}}, "template": template}
        await cluster.create(REPLICA_SETS, {"metadata": {"name": "r"}, "spec": spec})
        await cluster.until(REPLICA_SETS, "r", lambda one: one["status"].get("readyReplicas") == 1)
        await server.stop()
        await asyncio.sleep(0.2)
        await server.start()
        await client.patch(REPLICA_SETS, "r", {"spec": {"replicas": 3}}, namespace="default")
        await cluster.until(REPLICA_SETS, "r", lambda one: one["status"].get("readyReplicas") == 3)
        await client.delete(REPLICA_SETS, "r", namespace="default")

        async def empty() -> bool:
            return not (await client.list(PODS, namespace="default")).items

        await eventually(empty)


async def test_a_controller_that_starts_late_finds_everything(tmp_path: Path) -> None:
    """Nothing depends on having seen an event: what was made before the controllers began is theirs all the same."""
    async with fragile(tmp_path) as (_, client):
        cluster = Cluster(client)
        template = {"metadata": {"labels": {"app": "x"}}, "spec": pod("x", script="true")["spec"]}
        template["spec"]["restartPolicy"] = "Always"
        spec = {"replicas": 2, "selector": {"matchLabels": {"app": "x"}}, "template": template}
        await cluster.create(REPLICA_SETS, {"metadata": {"name": "r"}, "spec": spec})
        for _ in range(2):  # and a second start changes nothing
            async with controllers(client, only=["replicaset"]):
                await cluster.until(REPLICA_SETS, "r", lambda one: one["status"].get("replicas") == 2)
        assert len((await client.list(PODS, namespace="default")).items) == 2
