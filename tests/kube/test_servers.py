"""The runtime against servers that are not ours to script: the embedded one, and (kube tier) a real kube-apiserver."""

import asyncio
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from edl.api.kubernetes.core import ConfigMap
from edl.kube.auth.kubeconfig import load_client_config
from edl.kube.cache.indexes import by_label
from edl.kube.cache.informer import Informer
from edl.kube.controllers.lease import Lease
from edl.kube.controllers.recorder import EventRecorder, Reference
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError
from edl.kube.rest.resource import Resource
from edl.kube.rest.transport import HttpTransport
from tests.kube.things import running, until
from tests.tier_kube.cluster.cluster import Cluster, provide

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
CORE_EVENTS = Resource("", "v1", "events", "Event")


class Embedded:
    """The embedded API server as a process, on the same port and the same data each time it is started."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.port = directory, "0"
        self.kubeconfig = directory / "kubeconfig"

    def start(self) -> None:
        command = [sys.executable, "-m", "edl.embedded.server", str(self.directory), self.port, "runtime-token"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        url = self.process.stdout.readline().strip()
        assert url.startswith("https://"), url
        self.port = url.rpartition(":")[2].strip("/")

    def end(self, how: signal.Signals) -> None:
        self.process.send_signal(how)
        self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture(scope="module", params=["embedded", pytest.param("real", marks=pytest.mark.kube)])
def kubeconfig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if request.param == "embedded":
        server = Embedded(tmp_path_factory.mktemp("embedded"))
        server.start()
        yield server.kubeconfig
        server.end(signal.SIGTERM)
    else:
        provide(nodes=False)
        cluster = Cluster(f"runtime-{os.getpid()}", nodes=0, controllers=False)
        cluster.start()
        yield cluster.kubeconfig
        cluster.stop()


@pytest.fixture
async def client(kubeconfig: Path) -> AsyncIterator[Client]:
    client = Client(HttpTransport(load_client_config(kubeconfig)))
    yield client
    await client.close()


@pytest.fixture
async def namespace(client: Client) -> str:
    name = f"runtime-{uuid.uuid4().hex[:8]}"
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


def config_map(name: str, value: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": {"value": value}}


def names(informer: Informer[ConfigMap]) -> list[str]:
    return sorted(item.metadata.name for item in informer.all())


async def test_every_verb(client: Client, namespace: str) -> None:
    made = await client.create(CONFIG_MAPS, config_map("a", "1"), namespace=namespace)
    with pytest.raises(ApiError) as caught:
        await client.create(CONFIG_MAPS, config_map("a", "1"), namespace=namespace)
    assert caught.value.is_already_exists
    changed = await client.replace(CONFIG_MAPS, "a", {**made, "data": {"value": "2"}}, namespace=namespace)
    with pytest.raises(ApiError) as caught:
        await client.replace(CONFIG_MAPS, "a", {**made, "data": {"value": "3"}}, namespace=namespace)
    assert caught.value.is_conflict
    assert int(changed["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    await client.patch(CONFIG_MAPS, "a", {"data": {"merge": "x"}}, namespace=namespace)
    await client.patch(CONFIG_MAPS, "a", {"data": {"strategic": "x"}}, kind="strategic", namespace=namespace)
    test = [{"op": "test", "path": "/data/value", "value": "2"}, {"op": "remove", "path": "/data/value"}]
    await client.patch(CONFIG_MAPS, "a", test, kind="json", namespace=namespace)
    applied = await client.apply(CONFIG_MAPS, "a", config_map("a", "applied"), namespace=namespace)
    assert applied["data"] == {"merge": "x", "strategic": "x", "value": "applied"}
    with pytest.raises(ApiError) as caught:
        await client.delete(CONFIG_MAPS, "a", namespace=namespace, uid="another")
    assert caught.value.is_conflict
    await client.delete(CONFIG_MAPS, "a", namespace=namespace, uid=made["metadata"]["uid"])
    with pytest.raises(ApiError) as caught:
        await client.get(CONFIG_MAPS, "a", namespace=namespace)
    assert caught.value.is_not_found


async def test_an_informer_stays_true(client: Client, namespace: str) -> None:
    for number in range(7):
        body = config_map(f"c{number}", "1", labels={"colour": ("red", "blue")[number % 2]})
        await client.create(CONFIG_MAPS, body, namespace=namespace)
    scope = {"namespace": namespace, "labels": "colour"}
    informer = Informer(client, CONFIG_MAPS, ConfigMap, scope=scope, indexes={"colour": by_label("colour")}, page=3)  # type: ignore[arg-type]  # a Scope
    async with running(informer):
        await asyncio.wait_for(informer.wait_synced(), 30)
        assert len(informer) == 7
        assert len(informer.by("colour", "red")) == 4
        written = await client.patch(
            CONFIG_MAPS, "c0", {"metadata": {"labels": {"colour": "blue"}}}, namespace=namespace
        )
        await asyncio.wait_for(informer.wait_seen(written["metadata"]["resourceVersion"]), 30)
        assert len(informer.by("colour", "red")) == 3
        await client.patch(CONFIG_MAPS, "c1", {"metadata": {"labels": {"colour": None}}}, namespace=namespace)
        await client.delete(CONFIG_MAPS, "c2", namespace=namespace)
        await until(lambda: names(informer) == ["c0", "c3", "c4", "c5", "c6"], within=30)
        assert informer.lists == 1
        assert informer.malformed == 0


async def test_a_version_of_long_ago_is_caught_up_from(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAPS, config_map("a", "1"), namespace=namespace)
    informer = Informer(client, CONFIG_MAPS, ConfigMap, scope={"namespace": namespace})
    async with running(informer):
        await asyncio.wait_for(informer.wait_synced(), 30)
    informer._store.version = 1  # as if we had slept through all of its history
    await client.delete(CONFIG_MAPS, "a", namespace=namespace)
    await client.create(CONFIG_MAPS, config_map("b", "1"), namespace=namespace)
    async with running(informer):
        await until(lambda: "b" in names(informer) and "a" not in names(informer), within=30)


async def test_a_lease_moves_on_when_it_is_given_back(client: Client, namespace: str) -> None:
    working: list[str] = []

    def candidate(identity: str) -> asyncio.Task[None]:
        async def work() -> None:
            working.append(identity)
            await asyncio.Event().wait()

        lease = Lease(client, name="leader", namespace=namespace, identity=identity, duration=60.0)
        return asyncio.create_task(lease.hold(work))

    first = candidate("first")
    await until(lambda: working == ["first"], within=30)
    second = candidate("second")
    await asyncio.sleep(1)
    assert working == ["first"]
    first.cancel()
    await asyncio.wait({first})
    await until(lambda: working == ["first", "second"], within=30)  # half of the time that the lease had
    second.cancel()
    await asyncio.wait({second})


async def test_events_are_seen_in_the_core_view(client: Client, namespace: str) -> None:
    """What kubectl describe reads: involvedObject and message of core/v1."""
    recorder = EventRecorder(client, controller="edl.dev/test", instance="pod-1", refresh=0.1)
    about = Reference("v1", "ConfigMap", "a", namespace, "uid-a")
    async with running(recorder):
        for _ in range(3):
            recorder.record(about, "Waiting", "for a GPU", kind="Warning")
            await asyncio.sleep(0.2)
        await recorder.drain(timeout=30.0)
    (event,) = (await client.list(CORE_EVENTS, namespace=namespace)).items
    assert event["message"] == "for a GPU"
    assert event["type"] == "Warning"
    assert event["involvedObject"]["uid"] == "uid-a"
    assert event["series"]["count"] == 3


async def test_an_api_server_killed_and_started_again(tmp_path: Path) -> None:
    server = Embedded(tmp_path)
    server.start()
    try:
        client = Client(HttpTransport(load_client_config(server.kubeconfig)))
        await client.create(CONFIG_MAPS, config_map("a", "1"), namespace="default")
        informer = Informer(client, CONFIG_MAPS, ConfigMap, scope={"namespace": "default"})
        async with running(informer):
            await asyncio.wait_for(informer.wait_synced(), 30)
            server.end(signal.SIGKILL)
            await until(lambda: informer.failure is not None, within=30)
            await asyncio.to_thread(server.start)
            await client.create(CONFIG_MAPS, config_map("b", "1"), namespace="default")
            await until(lambda: {"a", "b"} <= set(names(informer)), within=60)
            await client.delete(CONFIG_MAPS, "a", namespace="default")
            await until(lambda: "a" not in names(informer), within=30)
        await client.close()
    finally:
        server.end(signal.SIGTERM)
