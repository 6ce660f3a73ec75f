"""Port-forward in numbered channels over a WebSocket, as clients that speak no SPDY have it (the official Python one).

The ports are named when the connection is made. Port number i of them has channel 2i for its data and 2i + 1 for what
went wrong; on each the node first says which port it is, in two bytes. Every port is one connection: when either side
ends it, so does the forwarding of that port.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import WSMsgType, web

CHANNEL_PROTOCOL = "v4.channel.k8s.io"
_CHUNK = 32 << 10

Connect = Callable[[int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
"""Opens a connection to a port of the pod; an OSError becomes the message that the client is told."""


def ports_of(values: Sequence[str]) -> list[int]:
    """Of `port=80&port=81` or `port=80,81`; ValueError if there is none, or something else."""
    texts = [text for value in values for text in value.split(",") if text]
    ports = [int(text) for text in texts if text.isascii() and text.isdecimal() and 0 < int(text[:6]) < 65536]
    if not ports or len(ports) != len(texts):
        raise ValueError(f'query parameter "port" must name ports from 1 to 65535, not {",".join(texts)[:60]!r}')
    return ports


class ChannelForwarding:
    """The connections of one client, until it is gone."""

    def __init__(self, socket: web.WebSocketResponse, connect: Connect, ports: Sequence[int]) -> None:
        self._socket, self._connect, self._ports = socket, connect, ports
        self._inbox: list[asyncio.Queue[bytes]] = [asyncio.Queue(maxsize=64) for _ in ports]

    async def serve(self) -> None:
        for index, port in enumerate(self._ports):
            for channel in (2 * index, 2 * index + 1):
                await self._send(channel, port.to_bytes(2, "little"))
        tasks = [asyncio.create_task(self._forward(index, port)) for index, port in enumerate(self._ports)]
        try:
            async for message in self._socket:
                await self._take(message.type, message.data)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _take(self, kind: WSMsgType, data: object) -> None:
        content = data.encode() if isinstance(data, str) else data
        if kind not in (WSMsgType.BINARY, WSMsgType.TEXT) or not isinstance(content, bytes) or not content:
            return
        index, is_error = divmod(content[0], 2)
        if not is_error and index < len(self._inbox):
            await self._inbox[index].put(content[1:])

    async def _forward(self, index: int, port: int) -> None:
        try:
            reader, writer = await self._connect(port)
        except OSError as problem:
            await self._send(2 * index + 1, f"error forwarding port {port}: {problem}".encode())
            return
        upload = asyncio.create_task(self._upload(index, writer))
        try:
            while data := await reader.read(_CHUNK):
                await self._send(2 * index, data)
        except OSError as problem:
            await self._send(2 * index + 1, f"error forwarding port {port}: {problem}".encode())
        finally:
            upload.cancel()
            writer.close()

    async def _upload(self, index: int, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while True:
                writer.write(await self._inbox[index].get())
                await writer.drain()

    async def _send(self, channel: int, data: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            await self._socket.send_bytes(bytes([channel]) + data)
