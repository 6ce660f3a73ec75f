"""`edl up`, `edl down` and `edl node` as people run them, and what is left when they are killed."""

import asyncio
import contextlib
import errno
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

from edl.cli.local.size import ClusterSize, last_size, resized, save_size
from edl.cli.local.up import rotate_log
from edl.embedded.home import Home, HomeInUseError, HomeUnusableError, RunningCluster
from edl.embedded.node.supervisor import processes
from edl.kube.auth.kubeconfig import load_client_config
from edl.kube.rest.client import Client
from edl.kube.rest.resource import Resource
from edl.kube.rest.transport import HttpTransport, Request
from tests.embedded.cluster_fixture import PODS, Cluster, eventually, pod

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
    client = Client(HttpTransport(load_client_config(edl.home / "kubeconfig")))
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


@pytest.mark.case("acceptance-9")
async def test_up_and_down_and_up_again(edl: Edl) -> None:
    offers = ("--gpu", "1", "--disk", "100Gi", "--resource", "example.com/fpga=2")
    said = await asyncio.to_thread(edl.up, "--nodes", "2", *offers)
    assert said.count("\n") == 1
    assert f"export KUBECONFIG={edl.home}/kubeconfig" in said
    again = await asyncio.to_thread(edl.up)
    assert again.startswith("already up since")
    first = Home(edl.home).running()
    assert first is not None
    async with connected(edl) as cluster:
        node = await cluster.get(NODES, "node-1")
        offered = {"cpu": "4", "memory": "4Gi", "ephemeral-storage": "100Gi", "pods": "1k"}
        offered |= {"nvidia.com/gpu": "1", "example.com/fpga": "2"}
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
        node = await cluster.get(NODES, "node-1")
        assert node["status"]["allocatable"] == offered, "what is not told otherwise is as it was"
        await cluster.until(PODS, "p", lambda one: one["status"]["containerStatuses"][0]["restartCount"] == 1)
    refused = await asyncio.to_thread(edl, "up", "--nodes", "3")
    assert refused.returncode == 1
    has = "2 nodes of 4 CPU, 4Gi memory, 100Gi disk, 1 GPU, 2 example.com/fpga"
    assert f"the cluster that runs has {has}, not {has.replace('2 nodes', '3 nodes')}; `edl down`" in refused.stderr


def test_a_port_that_is_taken_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = Edl(tmp_path / "home")("up", "--port", str(port), "--no-operator")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"edl: port {port} of this machine is taken; name another one, or none for any that is free\n"


@pytest.mark.parametrize("content", ["", "[]", '{"nodes": "many"}', "{"])
def test_a_size_that_cannot_be_read_is_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "size.json").write_text(content)
    assert last_size(tmp_path) == ClusterSize()


def test_the_last_size_is_known_and_changed_by_what_is_said(tmp_path: Path) -> None:
    assert last_size(tmp_path) == ClusterSize()
    size = ClusterSize(nodes=3, cpu="8", resources={"example.com/fpga": "2"})
    save_size(tmp_path, size)
    wanted: dict[str, Any] = {"nodes": None, "cpu": "", "memory": "4Gi", "gpu": 0, "resources": {}}
    assert resized(last_size(tmp_path), wanted) == ClusterSize(
        nodes=3, cpu="8", memory="4Gi", resources={"example.com/fpga": "2"}
    )
    assert str(ClusterSize()) == "1 node"


@pytest.mark.parametrize("with_supervisor", [False, True])
async def test_kill_9_leaves_nothing_that_the_next_start_does_not_clean(edl: Edl, with_supervisor: bool) -> None:
    await asyncio.to_thread(edl.up)
    async with connected(edl) as cluster:
        await cluster.create(PODS, pod("p", script=FOREVER))
        await cluster.phase("p", "Running")

    async def both_run() -> bool:  # the shell, and the child that it starts at some time
        return len(edl.left()) >= 2

    await eventually(both_run)
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
        "import sys; from pathlib import Path; from edl.cli.local.up import UpError, UpSettings, start\n"
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
        (["up", "--disk", "much"], "--disk much:"),
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


@pytest.mark.case("attack-7")
def test_the_log_of_a_running_cluster_is_bounded_and_written_on(tmp_path: Path) -> None:
    """It is rotated under those who write: they hold the same file, whatever it is called."""
    log = tmp_path / "up.log"
    with log.open("ab", buffering=0) as first, log.open("ab", buffering=0) as second:
        for number in range(100):
            first.write(b"line %d of the cluster\n" % number)
            second.write(b"line %d of its child\n" % number)
            rotate_log(log, 1000)
            assert log.stat().st_size <= 1000
    kept = log.with_suffix(".log.1").read_bytes() + log.read_bytes()
    assert kept.endswith(b"line 99 of its child\n")
    assert len(kept) <= 2 * 1100
    assert not rotate_log(tmp_path / "absent.log", 1000)


@pytest.mark.parametrize("trouble", ["a file is in its place", "its parent is a file"])
def test_a_home_that_cannot_be_used_is_said_in_a_line(tmp_path: Path, trouble: str) -> None:
    (tmp_path / "file").write_text("")
    edl = Edl(tmp_path / "file" if trouble.startswith("a file") else tmp_path / "file" / "home")
    found = edl("up")
    assert found.returncode == 1
    assert "cannot be used" in found.stderr
    assert "EDL_HOME names another place" in found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.case("attack-low-read-only-home")
def test_a_read_only_home_is_said_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "chmod", read_only)
    with pytest.raises(HomeUnusableError, match=r"cannot be used: Read-only file system; EDL_HOME names another place"):
        Home(tmp_path).claim()


@pytest.mark.case("attack-low-up-json")
@pytest.mark.parametrize(
    "content",
    [
        '{"pid": 1, "start": 0, "url": "https://127.0.0.1:abc", "nodes": 1, "since": "x", "version": "y"}',
        '{"pid": "x", "start": "y", "url": 5, "nodes": null, "since": 1, "version": 2}',
        "[1]",
        "",
        '{"pid": 99999999, "start": 1, "url": "https://127.0.0.1:99999", "nodes": 1, "since": "x", "version": "y"}',
    ],
)
def test_what_an_earlier_cluster_left_in_up_json_is_nobodys(tmp_path: Path, content: str) -> None:
    """While another starts it has recorded nothing, so there is nothing to stop, and no port that cannot be."""
    (tmp_path / "up.json").write_text(content)
    home = Home(tmp_path)
    claim = home.claim()
    with pytest.raises(HomeInUseError) as busy:
        Home(tmp_path).claim()
    assert busy.value.running is None
    assert home.last_port() == 0
    claim.close()


def test_the_port_of_the_last_time_is_known(tmp_path: Path) -> None:
    known = RunningCluster(pid=1, start=1, url="https://127.0.0.1:16443", nodes=1, since="x", version="y")
    home = Home(tmp_path)
    for _ in range(2):
        claim = home.claim()
        home.save_running(known)
        claim.close()
    home.claim().close()
    assert home.last_port() == 16443
