"""The client's WebSocket beside aiohttp's server: long and split messages, pings, refusals, silence."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import WSMsgType, web

from edl.runtime.torch import websocket
from edl.runtime.torch.websocket import WebSocketError

Talk = Callable[[web.WebSocketResponse], Awaitable[None]]


@asynccontextmanager
async def served(talk: Talk) -> AsyncIterator[str]:
    async def handle(request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != "Bearer secret":
            return web.Response(status=401)
        socket = web.WebSocketResponse(max_msg_size=0)
        await socket.prepare(request)
        await talk(socket)
        return socket

    app = web.Application()
    app.router.add_get("/talk", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/talk"
    finally:
        await runner.cleanup()


async def echo(socket: web.WebSocketResponse) -> None:
    async for message in socket:
        assert message.type is WSMsgType.BINARY
        await socket.send_bytes(message.data)


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 1_000_000])
async def test_messages_of_every_length_come_back_as_they_were(size: int) -> None:
    sent = bytes(at % 251 for at in range(size))
    async with served(echo) as url:
        socket = await websocket.connect(url, "secret", None)
        await socket.send(sent)
        assert await anext(socket.messages()) == sent
        socket.abort()


async def test_a_close_is_answered_and_ends_the_messages() -> None:
    closed = asyncio.Event()

    async def leave(socket: web.WebSocketResponse) -> None:
        await socket.send_bytes(b"last")
        await socket.ping(b"are you there")
        await socket.close(code=1012, message=b"ask the next leader")
        assert socket.close_code == 1012, "the client said it too"
        closed.set()

    async with served(leave) as url:
        socket = await websocket.connect(url, "secret", None)
        assert [message async for message in socket.messages()] == [b"last"]
        await closed.wait()
        socket.abort()


async def test_a_stranger_is_told_so() -> None:
    async with served(echo) as url:
        with pytest.raises(WebSocketError, match="401"):
            await websocket.connect(url, "wrong", None)
        with pytest.raises(WebSocketError, match="404"):
            await websocket.connect(f"{url}/elsewhere", "secret", None)


async def test_a_server_that_falls_silent_is_given_up() -> None:
    async def handshake_only(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await serve_silently(reader, writer)

    server = await asyncio.start_server(handshake_only, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    socket = await websocket.connect(f"http://127.0.0.1:{port}/", "t", None)
    pings = asyncio.create_task(socket.keep_alive(0.02))
    with pytest.raises(WebSocketError, match="broke"):
        await anext(socket.messages())
    pings.cancel()
    await asyncio.gather(pings, return_exceptions=True)
    server.close()


async def serve_silently(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    import base64
    import hashlib

    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    key = next(line.split(": ")[1] for line in head.split("\r\n") if line.startswith("Sec-WebSocket-Key"))
    accept = base64.b64encode(hashlib.sha1((key + websocket.GUID).encode()).digest()).decode()
    writer.write(f"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: {accept}\r\n\r\n".encode())
    await reader.read()  # everything, and answers nothing
    writer.close()
