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


@pytest.mark.case("attack-low-bearer")
async def test_a_token_that_is_no_text_is_no_token(listening: Server) -> None:
    answer = await raw(listening, b"GET /api/v1/pods HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 401")


async def test_a_client_whose_name_is_no_text(listening: Server) -> None:
    body = b'{"metadata":{"name":"m"}}'
    head = b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\n" + HEAD + b"User-Agent: a\xff/1\r\n"
    answer = await raw(listening, head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    assert answer.startswith(b"HTTP/1.1 201")


@pytest.mark.case("attack-9")
async def test_nothing_is_read_of_what_a_stranger_sends(listening: Server) -> None:
    """The attack: bodies as large as may be from whoever connects, each held until its last byte is there."""
    head = b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", listening.port)
    writer.write(head + b"x" * 100)
    async with asyncio.timeout(50):  # a body is waited for for a minute
        assert (await reader.readline()).startswith(b"HTTP/1.1 403")
    writer.close()


def resident_mib() -> float:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


@pytest.mark.case("attack-low-malformed")
async def test_refused_requests_leave_no_memory_behind(monkeypatch: pytest.MonkeyPatch, listening: Server) -> None:
    monkeypatch.setattr("edl.embedded.server.http.freed_memory._SECONDS", 0.2)
    body = b'{"spec":{"finalizers":"' + b"x" * 2_900_000 + b'"}}'
    head = b"PATCH /api/v1/namespaces/default HTTP/1.1\r\nContent-Type: application/merge-patch+json\r\n" + HEAD
    request = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    before = resident_mib()
    for _ in range(3):
        answers = await asyncio.gather(*(raw(listening, request, wait=30) for _ in range(8)))
        assert all(answer.startswith(b"HTTP/1.1 422") for answer in answers)
    del answers
    for _ in range(500):
        if resident_mib() < before + 40:
            break
        await asyncio.sleep(0.01)
    assert resident_mib() < before + 40


@pytest.mark.case("attack-low-malformed")
async def test_two_thousand_malformed_requests_leave_no_memory_behind(
    monkeypatch: pytest.MonkeyPatch, listening: Server
) -> None:
    """Bodies that are no JSON, no text, too deep, or of another shape, and headers that end nowhere."""
    monkeypatch.setattr("edl.embedded.server.http.freed_memory._SECONDS", 0.2)
    padding = b"x" * 100_000
    bodies = (
        b'{"metadata":{"name":"' + padding,
        b"\xff\xfe" + padding,
        b"[" * 100_000,
        b'{"metadata":{"name":["' + padding + b'"]}}',
        b'{"metadata":{"labels":{"' + padding + b'":{}}}}',
    )
    path = b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nConnection: close\r\n" + HEAD
    requests = [path + b"Content-Length: %d\r\n\r\n" % len(body) + body for body in bodies]
    before = resident_mib()
    for _ in range(50):
        answers = await asyncio.gather(*(raw(listening, request, wait=60) for request in requests * 8))
        assert {answer[:10] for answer in answers} == {b"HTTP/1.1 4"}, answers
    for _ in range(500):
        if resident_mib() < before + 40:
            break
        await asyncio.sleep(0.01)
    assert resident_mib() < before + 40
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
    monkeypatch.setattr("edl.embedded.server.http.listener.BODY_SECONDS", 0.05)
    head = b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\n" + HEAD + b"Content-Length: 100\r\n\r\n{"
    answer = await raw(listening, head)
    assert answer.startswith(b"HTTP/1.1 504")
    assert b'"reason":"Timeout"' in answer


async def test_a_watcher_that_does_not_read_is_dropped(monkeypatch: pytest.MonkeyPatch, listening: Server) -> None:
    monkeypatch.setattr("edl.embedded.server.http.listener._SLOW_WATCH_BYTES", 1 << 20)
    _, writer = await asyncio.open_connection("127.0.0.1", listening.port, limit=1024)
    writer.write(b"GET /api/v1/configmaps?watch=true HTTP/1.1\r\n" + HEAD + b"\r\n")
    async with aiohttp.ClientSession(listening.url, headers={"Authorization": "Bearer t"}) as http:
        for number in range(40):
            body = {"metadata": {"name": f"m{number}"}, "data": {"x": "y" * 400_000}}
            async with http.post("/api/v1/namespaces/default/configmaps", json=body) as answer:
                assert answer.status == 201
    assert not listening._listener._watches
    writer.close()
    await still_serves(listening)
