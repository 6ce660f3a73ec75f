"""Servers that come back at the same port take one that the kernel gives to nobody by chance."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import web

from edl.embedded.cluster import embedded_cluster
from edl.serving import lasting_port as ports
from edl.serving.http import serve_app

HERE = "127.0.0.1"


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server((HERE, 0)) as listener:
        yield listener.getsockname()[1]


async def served(port: int) -> web.AppRunner:
    return await serve_app(web.Application(), HERE, port)


async def port_again(known: int) -> int:
    runner = await ports.serve_again(served, HERE, known)
    port = int(runner.addresses[0][1])
    await runner.cleanup()
    return port


def test_none_is_of_the_kernels_own_range() -> None:
    assert ports.lasting_ports((32_768, 60_999)) == list(ports.LASTING)
    assert ports.lasting_ports((25_000, 60_999)) == list(range(20_000, 25_000))
    assert ports.lasting_ports((1024, 65_535)) == []


async def test_it_comes_back_where_it_was() -> None:
    known = await port_again(0)
    assert known in ports.LASTING
    assert await port_again(known) == known


async def test_a_port_that_is_taken_does_not_keep_a_server_from_starting(taken: int) -> None:
    assert await port_again(taken) in ports.LASTING


async def test_where_the_kernel_gives_out_all_any_will_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "range"
    file.write_text("1024\t65535\n")
    monkeypatch.setattr(ports, "_KERNEL_RANGE", file)
    assert ports.lasting_port(HERE) == 0
    assert await port_again(0) > 0


async def test_an_api_server_has_such_a_port(tmp_path: Path) -> None:
    async with embedded_cluster(home=tmp_path, nodes=1) as cluster:
        assert int(cluster.url.rpartition(":")[2]) in ports.LASTING
