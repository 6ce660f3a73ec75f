"""`edl up`, `edl down` and `edl node` as people run them, and what is left when they are killed."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.embedded.cluster_fixture import PODS, Cluster, eventually, pod

from edl.embedded.home import Home, HomeInUseError
from edl.embedded.node.supervisor import processes
from edl.kube.client import Client
from edl.kube.kubeconfig import load_account
from edl.kube.resource import Resource
from edl.kube.transport import HttpTransport, Request

NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
FOREVER = "setsid sleep 1000 & while :; do sleep 0.1; done"


class Edl:
    """The command with a home of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.env = {**os.environ, "EDL_HOME": str(home)}
        self.env.pop("KUBECONFIG", None)

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "edl.cli.main", *words]
        return subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=90, check=False)

    def up(self, *words: str) -> str:
        done = self("up", "--cpu", "4", "--memory", "4Gi", "--no-operator", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def pid(self) -> int:
        running = Home(self.home).running()
        assert running is not None
        return running.pid

    def left(self) -> list[str]:
        """Processes that belong to this home, by the mark in their environment."""
        owner = Home(self.home).owner
        marks = [processes.mark_of(pid) for pid in processes.table()]
        return [mark for mark in marks if mark.startswith(f"{owner}/")]


@pytest.fixture
def edl(tmp_path: Path) -> Iterator[Edl]:
    made = Edl(tmp_path / "home")
    yield made
    made("down")


@asynccontextmanager
async def connected(edl: Edl) -> AsyncIterator[Cluster]:
    client = Client(HttpTransport(load_account(edl.home / "kubeconfig")))
    try:
        yield Cluster(client)
    finally:
        await client.close()


def alive(pid: int) -> bool:
    return pid in processes.table()


async def gone(pid: int) -> None:
    async def look() -> bool:
        return not alive(pid)

    await eventually(look)


def port_is_open(url: str) -> bool:
    host, port = url.removeprefix("https://").split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


async def test_up_and_down_and_up_again(edl: Edl) -> None:
    said = await asyncio.to_thread(edl.up, "--nodes", "2", "--gpu", "1", "--resource", "example.com/fpga=2")
    assert said.count("\n") == 1
    assert f"export KUBECONFIG={edl.home}/kubeconfig" in said
    again = await asyncio.to_thread(edl.up)
    assert again.startswith("already up since")
    first = Home(edl.home).running()
    assert first is not None
    async with connected(edl) as cluster:
        node = await cluster.get(NODES, "node-1")
        offered = {"cpu": "4", "memory": "4Gi", "nvidia.com/gpu": "1", "example.com/fpga": "2", "pods": "1k"}
        assert node["status"]["allocatable"] == offered
        await cluster.create(PODS, pod("p", script=FOREVER, restartPolicy="Always"))
        await cluster.phase("p", "Running")
    assert edl.left()
    down = await asyncio.to_thread(edl, "down")
    assert "has stopped" in down.stdout
    assert not alive(first.pid)
    assert edl.left() == []
    assert not port_is_open(first.url)
    assert [path for path in edl.home.rglob("*") if path.is_socket()] == []
    assert (await asyncio.to_thread(edl, "down")).stdout == "nothing was up\n"
    await asyncio.to_thread(edl.up, "--nodes", "2")
    second = Home(edl.home).running()
    assert second is not None
    assert second.url == first.url, "a copied kubeconfig stays good"
    async with connected(edl) as cluster:
        await cluster.until(PODS, "p", lambda one: one["status"]["containerStatuses"][0]["restartCount"] == 1)


@pytest.mark.parametrize("with_supervisor", [False, True])
async def test_kill_9_leaves_nothing_that_the_next_start_does_not_clean(edl: Edl, with_supervisor: bool) -> None:
    await asyncio.to_thread(edl.up)
    async with connected(edl) as cluster:
        await cluster.create(PODS, pod("p", script=FOREVER))
        await cluster.phase("p", "Running")
    assert len(edl.left()) >= 2
    victims = [edl.pid]
    if with_supervisor:
        victims += [one.pid for one in processes.table().values() if one.parent == edl.pid]
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    if not with_supervisor:  # the supervisor sees the end of its node and takes everything with it, at once

        async def clean() -> bool:
            return edl.left() == []

        await eventually(clean)
    await gone(edl.pid)
    await asyncio.to_thread(edl.up)
    assert edl.left() == []
    async with connected(edl) as cluster:
        lost = await cluster.phase("p", "Failed")
        assert any(one["type"] == "DisruptionTarget" for one in lost["status"]["conditions"])


async def test_down_after_kill_9_cleans_too(edl: Edl) -> None:
    await asyncio.to_thread(edl.up)
    async with connected(edl) as cluster:
        await cluster.create(PODS, pod("p", script=FOREVER))
        await cluster.phase("p", "Running")
    os.kill(edl.pid, signal.SIGSTOP)  # or it might still see the first of its children go, and clean up itself
    children = [one.pid for one in processes.table().values() if one.parent == edl.pid]
    for pid in (*children, edl.pid):
        os.kill(pid, signal.SIGKILL)
    await gone(edl.pid)
    said = await asyncio.to_thread(edl, "down", "--delete")
    assert "that a killed cluster left were ended" in said.stdout
    assert not edl.home.exists()


async def test_a_start_that_fails_says_why(tmp_path: Path) -> None:
    home = tmp_path / "home"
    edl = Edl(home)
    (home / "store.db").parent.mkdir()
    (home / "store.db").write_text("this is no database, and it is long enough to be looked at")
    done = await asyncio.to_thread(edl, "up", "--no-operator")
    assert done.returncode == 1
    assert "store.db" in done.stderr or "database" in done.stderr
    assert Home(home).claim() is not None


async def test_a_start_that_takes_too_long_is_given_up(edl: Edl) -> None:
    program = (
        "import sys; from pathlib import Path; from edl.embedded.up import UpError, UpSettings, start\n"
        "try: start(UpSettings(home=Path(sys.argv[1]), operator=False), patience=0.0)\n"
        "except UpError as error: sys.exit(str(error))"
    )
    command = [sys.executable, "-c", program, str(edl.home)]
    done = await asyncio.to_thread(subprocess.run, command, env=edl.env, capture_output=True, text=True, timeout=90)
    assert "the cluster was not ready within 0 s and is stopped; the end of" in done.stderr

    async def free() -> bool:
        try:
            Home(edl.home).claim().close()
        except HomeInUseError:
            return False
        return edl.left() == []

    await eventually(free)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["up", "--nodes", "0"], "--nodes 0: wants 1 to 100"),
        (["up", "--cpu", "many"], "--cpu many:"),
        (["up", "--resource", "fpga=1"], "--resource fpga=1: wants NAME=N"),
        (["node", "--taint", "x"], "--taint x: wants KEY=VALUE:EFFECT"),
        (["node", "--label", "x"], "--label x: wants KEY=VALUE"),
    ],
)
def test_what_cannot_be_is_refused_by_name(tmp_path: Path, words: list[str], says: str) -> None:
    done = Edl(tmp_path / "home")(*words)
    assert done.returncode == 1
    assert says in done.stderr


async def test_a_node_joins_and_leaves(edl: Edl, tmp_path: Path) -> None:
    await asyncio.to_thread(edl.up)
    words = ["node", "--name", "far", "--cpu", "2", "--label", "place=far", "--taint", "only=far:NoSchedule"]
    joined = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "edl.cli.main", *words, env=edl.env, stdout=subprocess.PIPE
    )
    try:
        assert joined.stdout is not None
        async with asyncio.timeout(60):
            assert await joined.stdout.readline() == b"node far is ready\n"
        async with connected(edl) as cluster:
            tolerations = [{"key": "only", "operator": "Exists"}]
            where: Any = {"nodeSelector": {"place": "far"}, "tolerations": tolerations}
            await cluster.create(PODS, pod("p", script="echo hello from afar; sleep 1000", **where))
            await cluster.phase("p", "Running")

            async def logged() -> bool:
                chunks = cluster.client.stream(Request("GET", "/api/v1/namespaces/default/pods/p/log"))
                async with contextlib.aclosing(chunks):
                    return b"".join([chunk async for chunk in chunks]) == b"hello from afar\n"

            await eventually(logged)
            joined.send_signal(signal.SIGTERM)
            assert await joined.wait() == 0
            left = await cluster.until(NODES, "far", lambda one: _ready(one) == "False")
            assert left["metadata"]["labels"]["place"] == "far"
    finally:
        if joined.returncode is None:
            joined.kill()
            await joined.wait()


def _ready(node: Any) -> str:
    return str(next(one["status"] for one in node["status"]["conditions"] if one["type"] == "Ready"))


def test_the_state_of_a_home_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    home = Home(tmp_path / "h")
    claim = home.claim()
    assert home.token == home.token
    assert home.network.startswith("127.")
    assert (home.path / "token").stat().st_mode & 0o777 == 0o600
    assert json.loads(json.dumps(home.owner)).startswith("edl-")
    claim.close()
