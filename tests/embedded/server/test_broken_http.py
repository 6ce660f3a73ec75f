"""Broken, slow and endless HTTP: the server answers as Kubernetes does, or hangs up, and keeps serving."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from edl.embedded.server import ADMIN, Server


@pytest.fixture
async def listening(tmp_path: Path) -> AsyncIterator[Server]:
    async with Server(tmp_path / "store.db", tokens={"t": ADMIN}) as running:
        yield running


async def raw(server: Server, *chunks: bytes, wait: float = 5) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        for chunk in chunks:
            writer.write(chunk)
            await writer.drain()
        async with asyncio.timeout(wait):
            return await reader.read(4096)
    except (ConnectionError, TimeoutError):
        return b""
    finally:
        writer.close()


HEAD = b"Host: x\r\nAuthorization: Bearer t\r\n"


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param((b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40) + b"\r\n\r\n",), id="tls-hello"),
        pytest.param((b"GET\r\n\r\n",), id="no-path"),
        pytest.param((b"GET / HTTP/9.9\r\n\r\n",), id="version"),
        pytest.param((b"GET /api/v1/pods HTTP/1.1\r\n" + b"X-A: " + b"a" * 100_000 + b"\r\n\r\n",), id="huge-header"),
        pytest.param(
            (b"GET /api/v1/pods HTTP/1.1\r\n" + b"".join(b"X-%d: a\r\n" % n for n in range(20_000)) + b"\r\n",),
            id="many-headers",
        ),
        pytest.param((b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",), id="huge-path"),
        pytest.param(
            (b"POST /api/v1/namespaces/default/pods HTTP/1.1\r\n" + HEAD + b"Content-Length: -5\r\n\r\n",),
            id="negative-length",
        ),
        pytest.param(
            (b"POST /api/v1/namespaces/default/pods HTTP/1.1\r\n" + HEAD + b"Content-Length: 99999999999\r\n\r\n{",),
            id="huge-length",
        ),
        pytest.param(
            (
                b"POST /api/v1/namespaces/default/pods HTTP/1.1\r\n"
                + HEAD
                + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
            ),
            id="broken-chunk",
        ),
        pytest.param(
            (
                b"POST /api/v1/namespaces/default/pods HTTP/1.1\r\n"
                + HEAD
                + b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
            ),
            id="broken-gzip",
        ),
        pytest.param((bytes(range(256)) * 20,), id="binary"),
    ],
)
async def test_broken_http(listening: Server, chunks: tuple[bytes, ...]) -> None:
    answer = await raw(listening, *chunks, wait=1)
    assert answer[:12] in (b"", b"HTTP/1.1 400", b"HTTP/1.0 400", b"HTTP/1.1 413", b"HTTP/1.1 403", b"HTTP/1.1 404"), (
        answer
    )
    await still_serves(listening)


async def still_serves(server: Server) -> None:
    headers = {"Authorization": "Bearer t"}
    async with aiohttp.ClientSession(server.url, headers=headers) as http, http.get("/api/v1/nodes") as answer:
        assert answer.status == 200


async def test_slow_and_silent_clients_hold_up_nobody(listening: Server) -> None:
    held = [await asyncio.open_connection("127.0.0.1", listening.port) for _ in range(50)]
    for number, (_, writer) in enumerate(held):
        if number % 2:
            writer.write(
                b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\n" + HEAD + b"Content-Length: 100\r\n\r\n{"
            )
    await still_serves(listening)
    for _, writer in held:
        writer.close()


async def test_a_body_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch, listening: Server) -> None:
    monkeypatch.setattr("edl.embedded.server.http.BODY_SECONDS", 0.05)
    head = b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\n" + HEAD + b"Content-Length: 100\r\n\r\n{"
    answer = await raw(listening, head)
    assert answer.startswith(b"HTTP/1.1 504")
    assert b'"reason":"Timeout"' in answer


async def test_a_watcher_that_does_not_read_is_dropped(monkeypatch: pytest.MonkeyPatch, listening: Server) -> None:
    monkeypatch.setattr("edl.embedded.server.http._SLOW_WATCH_BYTES", 1 << 20)
    _, writer = await asyncio.open_connection("127.0.0.1", listening.port, limit=1024)
    writer.write(b"GET /api/v1/configmaps?watch=true HTTP/1.1\r\n" + HEAD + b"\r\n")
    async with aiohttp.ClientSession(listening.url, headers={"Authorization": "Bearer t"}) as http:
        for number in range(40):
            body = {"metadata": {"name": f"m{number}"}, "data": {"x": "y" * 400_000}}
            async with http.post("/api/v1/namespaces/default/configmaps", json=body) as answer:
                assert answer.status == 201
    assert not listening._front._watches
    writer.close()
    await still_serves(listening)
