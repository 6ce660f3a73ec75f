"""The small parts: addresses, names, images, devices, admission, logs read back."""

import errno
import os
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edl.embedded.node import logs
from edl.embedded.node.logs import LogOptions
from edl.embedded.node.network.addresses import AddressesExhaustedError, AddressPool
from edl.embedded.node.network.hosts_file import ServiceNames, own_text, service_lines, service_variables, shared_text
from edl.embedded.node.pod.admission import shortage
from edl.embedded.node.pod.devices import Devices
from edl.embedded.node.pod.directories import rewrite
from edl.embedded.node.pod.environment import Image
from edl.embedded.node.pod.images import Images
from edl.embedded.node.pod.inputs import ConfigurationError
from edl.embedded.node.pod.termination_message import termination_message
from edl.embedded.node.pod.types import Container, Pod
from edl.embedded.node.supervisor.logs import LogWriter
from edl.embedded.pod_requests import requests_of


def test_addresses_are_unique_on_the_machine() -> None:
    one, other = AddressPool(rng=random.Random(1)), AddressPool(rng=random.Random(1))
    try:
        taken = [one.take() for _ in range(300)] + [other.take() for _ in range(300)]
        assert len(set(taken)) == 600
        assert all(address.startswith("127.") and 16 <= int(address.split(".")[1]) <= 95 for address in taken)
    finally:
        one.close()
        other.close()


def test_a_freed_address_rests_and_comes_back() -> None:
    pool = AddressPool(reserve=lambda block: block)
    first = pool.take()
    pool.give_back(first)
    assert first not in [pool.take() for _ in range(253)]
    assert pool.take() == first


def test_when_no_block_is_free_it_says_so() -> None:
    with pytest.raises(AddressesExhaustedError, match="no free block"):
        AddressPool(reserve=lambda block: None).take()


def test_names_are_as_dns_would_resolve_them() -> None:
    lines = service_lines(
        [
            ServiceNames("ns", "web", "127.30.0.1"),
            ServiceNames("ns", "db", "", (("127.16.0.5", "db-0"), ("127.16.0.6", ""))),
            ServiceNames("other", "web", "127.30.0.2"),
        ]
    )
    text = shared_text(lines, "ns")
    assert "127.30.0.1\tweb.ns.svc.cluster.local web.ns.svc web.ns web\n" in text
    assert "127.16.0.5\tdb.ns.svc.cluster.local db.ns.svc db.ns db\n" in text
    assert "127.16.0.5\tdb-0.db.ns.svc.cluster.local db-0.db.ns.svc db-0.db.ns db-0.db\n" in text
    assert "127.16.0.6\tdb.ns.svc.cluster.local db.ns.svc db.ns db\n" in text
    assert "127.30.0.2\tweb.other.svc.cluster.local web.other.svc web.other\n" in text
    assert "127.30.0.1\tweb.ns.svc.cluster.local web.ns.svc web.ns\n" in shared_text(lines, "third")


def test_a_pod_knows_itself_by_name() -> None:
    plain = msgspec.convert({"metadata": {"name": "p"}}, Pod)
    assert "127.16.0.9\tp\n" in own_text(plain, "127.16.0.9")
    spec = {"hostname": "h", "subdomain": "svc", "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a", "b"]}]}
    named = msgspec.convert({"metadata": {"name": "p", "namespace": "ns"}, "spec": spec}, Pod)
    assert "127.16.0.9\th.svc.ns.svc.cluster.local h\n" in own_text(named, "127.16.0.9")
    assert "10.0.0.1\ta b\n" in own_text(named, "127.16.0.9")


def test_service_variables() -> None:
    env = service_variables([("my-db", "127.30.0.1", [("sql", 5432), ("", 80)])])
    assert env["MY_DB_SERVICE_HOST"] == "127.30.0.1"
    assert env["MY_DB_SERVICE_PORT"] == "5432"
    assert env["MY_DB_SERVICE_PORT_SQL"] == "5432"
    assert env["MY_DB_PORT_80_TCP_ADDR"] == "127.30.0.1"


def test_a_file_is_rewritten_in_place(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("a long first version\n")
    inode = path.stat().st_ino
    rewrite(path, "short\n")
    assert (path.read_text(), path.stat().st_ino) == ("short\n", inode)


def test_images(tmp_path: Path) -> None:
    path = tmp_path / "images.yaml"
    images = Images(path)
    assert images.find("redis:7") == Image()
    path.write_text(
        "redis: {command: [redis-server], env: {A: 1}}\n'host:5000/x:2': {virtualenv: /v, workingDir: /w}\n"
    )
    assert images.find("redis:7") == images.find("redis") == images.find("redis@sha256:1")
    assert images.find("redis").command == ("redis-server",)
    assert images.find("redis").env == {"A": "1"}
    assert images.find("host:5000/x:2") == Image(virtualenv="/v", working_dir="/w")
    assert images.find("host:5000/x:3") == Image()
    idle = Image(command=("sleep", "infinity"))
    assert [images.find(name) for name in ("registry.k8s.io/pause:3.10", "pause", "host:5000/a/pause")] == [idle] * 3
    assert images.find("pause-please") == Image()
    path.write_text("redis: {comand: [x]}\n#")
    with pytest.raises(ConfigurationError, match="redis: comand is unknown; known are args, command"):
        images.find("redis")


def test_devices_stay_with_their_pod() -> None:
    devices = Devices(4, first=4)
    assert devices.take("p", "a", 2) == [4, 5]
    assert devices.take("p", "a", 2) == [4, 5]
    assert devices.take("q", "a", 1) == [6]
    with pytest.raises(ValueError, match="2 devices wanted, 1 are free"):
        devices.take("r", "a", 2)
    devices.give_back("p")
    assert devices.take("r", "a", 2) == [4, 5]


def sized(*requests: dict[str, Any], init: list[dict[str, Any]] | None = None, **spec: Any) -> Pod:
    containers = [{"name": f"c{i}", "resources": {"requests": one}} for i, one in enumerate(requests)]
    return msgspec.convert({"spec": {"containers": containers, "initContainers": init or [], **spec}}, Pod)


def test_requests_of_a_pod() -> None:
    def init(cpu: str, **more: str) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    def cpu(pod: Pod) -> float:
        return requests_of(pod)["cpu"] / 10**9

    assert cpu(sized({"cpu": "1"}, {"cpu": "500m"})) == 1.5
    assert cpu(sized({"cpu": "1"}, init=[init("3")])) == 3
    assert cpu(sized({"cpu": "1"}, init=[init("2", restartPolicy="Always"), init("3")])) == 5
    assert cpu(sized({"cpu": "4"}, init=[init("2", restartPolicy="Always"), init("3")])) == 6
    assert cpu(sized({"cpu": "1"}, overhead={"cpu": "250m"})) == 1.25
    assert cpu(sized({"cpu": "1"}, resources={"requests": {"cpu": "3"}})) == 3


def test_a_pod_that_does_not_fit_is_refused_with_the_numbers() -> None:
    others = [requests_of(sized({"cpu": "3", "nvidia.com/gpu": "4"}))]
    room = {"cpu": "4", "nvidia.com/gpu": "4", "pods": "2"}
    assert shortage(sized({"cpu": "1"}), others, room) is None
    refusal = shortage(sized({"cpu": "1500m"}), others, room)
    assert refusal == (
        "OutOfcpu",
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 1500m, used: 3, capacity: 4",
    )
    assert (shortage(sized({"nvidia.com/gpu": "1"}), others, room) or ("",))[0] == "OutOfnvidia.com/gpu"
    assert (shortage(sized({"unknown.dev/x": "1"}), others, room) or ("",))[0] == "OutOfunknown.dev/x"
    assert (shortage(sized({}), others * 2, room) or ("",))[0] == "OutOfpods"


async def text(log: Path, **options: Any) -> bytes:
    return b"".join([piece async for piece in logs.read(log, LogOptions(**options))])


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Twenty lines over several rotated files, the last one unfinished."""
    path = tmp_path / "0.log"
    writer = LogWriter(str(path), max_bytes=250, keep=9)
    for number in range(20):
        writer.write("stderr" if number % 5 == 0 else "stdout", f"line {number}\n".encode())
    writer.write("stdout", b"the end")
    writer.close()
    assert len(logs.files_of(path)) > 3
    return path


async def test_a_log_reads_back_as_it_was_written(written: Path) -> None:
    whole = b"".join(b"line %d\n" % number for number in range(20)) + b"the end"
    assert await text(written) == whole
    assert await text(written, tail_lines=3) == b"line 18\nline 19\nthe end"
    assert await text(written, tail_lines=0) == b""
    assert await text(written, tail_lines=100) == whole
    assert await text(written, limit_bytes=10) == whole[:10]
    assert (await text(written, stream="stderr")).split(b"\n")[:2] == [b"line 0", b"line 5"]
    assert await text(written, since=4e9) == b""
    assert await text(written, since=0.0) == whole
    first = (await text(written, timestamps=True)).split(b"\n")[0]
    assert first.endswith(b"Z line 0")


async def test_following_sees_what_is_added_even_over_a_rotation(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    writer = LogWriter(str(path), max_bytes=200, keep=9)
    writer.write("stdout", b"first\n")
    rounds = iter(range(8))

    def more() -> bool:
        number = next(rounds, None)
        if number is not None:
            writer.write("stdout", b"added %d\n" % number)
        return number is not None

    read = b"".join([piece async for piece in logs.read(path, LogOptions(), follow=more)])
    writer.close()
    assert read == b"first\n" + b"".join(b"added %d\n" % number for number in range(8))
    assert len(logs.files_of(path)) > 1


@pytest.mark.parametrize("options", [{}, {"tail_lines": 1}])
async def test_a_follower_misses_nothing_however_often_the_log_is_rotated_between_two_looks(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    """Each look finds several rotations, and inodes of files that are gone are used again."""
    path = tmp_path / "0.log"
    writer = LogWriter(str(path), max_bytes=200, keep=9)
    writer.write("stdout", b"first\n")
    rounds = iter(range(20))

    def more() -> bool:
        number = next(rounds, None)
        if number is not None:
            for part in range(20):
                writer.write("stdout", b"added %d %d\n" % (number, part))
        return number is not None

    read = b"".join([piece async for piece in logs.read(path, LogOptions(**options), follow=more)])
    writer.close()
    assert read == b"first\n" + b"".join(b"added %d %d\n" % (n, part) for n in range(20) for part in range(20))
    assert len(logs.files_of(path)) == 10


async def test_a_log_that_is_rotated_while_it_is_read_is_read_on(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    writer = LogWriter(str(path), max_bytes=4000, keep=4)
    for number in range(300):
        writer.write("stdout", b"line %d\n" % number)
    read = b""
    async for piece in logs.read(path, LogOptions()):
        read += piece
        for number in range(300, 600):
            writer.write("stdout", b"line %d\n" % number)
    writer.close()
    lines = [int(line.split()[1]) for line in read.splitlines()]
    assert lines == list(range(lines[0], lines[0] + len(lines))), "no gap"
    assert lines[-1] >= 299


def test_a_rotation_that_fails_costs_no_line_and_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "0.log"
    writer = LogWriter(str(path), max_bytes=200, keep=2)
    real = os.replace

    def broken(source: str, target: str) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "replace", broken)
    for number in range(10):
        writer.write("stdout", b"line %d\n" % number)
    assert logs.tail(path, lines=100) == b"".join(b"line %d\n" % number for number in range(10))
    monkeypatch.setattr(os, "replace", real)
    writer.write("stdout", b"line 10\n")
    assert len(logs.files_of(path)) == 2
    for number in range(1000):
        writer.write("stdout", b"line %d\n" % number)
    writer.close()
    assert sum(file.stat().st_size for file in logs.files_of(path)) <= 3 * 200, "bounded while it is written"


async def test_a_very_long_line_is_whole_again(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    writer = LogWriter(str(path))
    writer.write("stdout", b"x" * 20000)
    writer.write("stdout", b"y\nnext\n")
    writer.close()
    assert await text(path) == b"x" * 20000 + b"y\nnext\n"
    assert await text(path, tail_lines=2) == b"x" * 20000 + b"y\nnext\n"


@pytest.mark.parametrize(
    ("policy", "code", "message", "said"),
    [
        ("File", 1, b"from the file", "from the file"),
        ("File", 1, b"", ""),
        ("FallbackToLogsOnError", 1, b"", "line 1\nline 2\n"),
        ("FallbackToLogsOnError", 0, b"", ""),
        ("FallbackToLogsOnError", 1, b"from the file", "from the file"),
    ],
)
def test_last_words(tmp_path: Path, policy: str, code: int, message: bytes, said: str) -> None:
    (tmp_path / "message").write_bytes(message)
    writer = LogWriter(str(tmp_path / "0.log"))
    writer.write("stdout", b"line 1\nline 2\n")
    writer.close()
    one = msgspec.convert({"terminationMessagePolicy": policy}, Container)
    assert termination_message(one, code, tmp_path / "message", tmp_path / "0.log") == said
