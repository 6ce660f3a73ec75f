"""A WebSocket client (RFC 6455) on asyncio's streams: binary messages out, messages in, pings answered and sent.

As much of the protocol as the job service speaks; no extensions, no subprotocols, no redirects. Needs the standard
library alone, because it runs in the images of users.
"""

import asyncio
import base64
import hashlib
import os
import ssl
import struct
import urllib.parse
from collections.abc import AsyncIterator

TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA
GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
MAX_MESSAGE = 16 * 1024 * 1024  # a round of tens of thousands of members is smaller
MAX_HEAD = 64 * 1024


class WebSocketError(ConnectionError):
    """The other side is no WebSocket, refused, or broke the protocol."""


class WebSocket:
    """One open connection. One task receives; sends of several tasks do not mix."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._heard = 0

    async def send(self, data: bytes, kind: int = BINARY) -> None:
        self._writer.write(frame(kind, data))
        await self._writer.drain()

    async def messages(self) -> AsyncIterator[bytes]:
        """Until the other side closes."""
        parts: list[bytes] = []
        while True:
            final, kind, data = await self._frame()
            if kind == PING:
                await self.send(data, PONG)
            elif kind == CLOSE:
                await self.send(data[:2], CLOSE)
                return
            elif kind != PONG:
                parts.append(data)
                if sum(map(len, parts)) > MAX_MESSAGE:
                    raise WebSocketError("a message is too long")
                if final:
                    message, parts = b"".join(parts), []
                    yield message

    async def keep_alive(self, every: float) -> None:
        """Pings, and cuts the connection when nothing came back in half the time: its host may have vanished."""
        while True:
            await asyncio.sleep(every)
            heard = self._heard
            await self.send(b"", PING)
            await asyncio.sleep(every / 2)
            if self._heard == heard:
                self.abort()

    def abort(self) -> None:
        self._writer.transport.abort()

    async def _frame(self) -> tuple[bool, int, bytes]:
        try:
            first, second = await self._reader.readexactly(2)
            length = second & 0x7F
            if length == 126:
                (length,) = struct.unpack("!H", await self._reader.readexactly(2))
            elif length == 127:
                (length,) = struct.unpack("!Q", await self._reader.readexactly(8))
            if length > MAX_MESSAGE:
                raise WebSocketError("a frame is too long")
            if second & 0x80:
                raise WebSocketError("servers do not mask")
            data = await self._reader.readexactly(length)
        except asyncio.IncompleteReadError as error:
            raise WebSocketError("the connection broke") from error
        self._heard += 1
        return bool(first & 0x80), first & 0x0F, data


def frame(kind: int, data: bytes) -> bytes:
    """One masked frame, as clients send them."""
    mask = os.urandom(4)
    if len(data) < 126:
        head = struct.pack("!BB", 0x80 | kind, 0x80 | len(data))
    elif len(data) < 1 << 16:
        head = struct.pack("!BBH", 0x80 | kind, 0x80 | 126, len(data))
    else:
        head = struct.pack("!BBQ", 0x80 | kind, 0x80 | 127, len(data))
    key = (mask * (len(data) // 4 + 1))[: len(data)]
    masked = int.from_bytes(data, "big") ^ int.from_bytes(key, "big")
    return head + mask + masked.to_bytes(len(data), "big")


async def connect(url: str, token: str, tls: ssl.SSLContext | None) -> WebSocket:
    """Raises an OSError if there is nobody, or no WebSocket for this token."""
    parts = urllib.parse.urlsplit(url)
    secure = parts.scheme in ("https", "wss")
    port = parts.port or (443 if secure else 80)
    context = (tls or ssl.create_default_context()) if secure else None
    reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=context, limit=MAX_HEAD)
    try:
        await _handshake(reader, writer, parts, token)
    except BaseException:
        writer.transport.abort()
        raise
    return WebSocket(reader, writer)


async def _handshake(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, parts: urllib.parse.SplitResult, token: str
) -> None:
    key = base64.b64encode(os.urandom(16)).decode()
    lines = (
        f"GET {parts.path or '/'} HTTP/1.1",
        f"Host: {parts.netloc}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {key}",
        "Sec-WebSocket-Version: 13",
        f"Authorization: Bearer {token}",
    )
    writer.write("\r\n".join((*lines, "", "")).encode())
    await writer.drain()
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise WebSocketError("no answer that can be read") from error
    status, *others = head.split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in others)}
    accept = base64.b64encode(hashlib.sha1((key + GUID).encode(), usedforsecurity=False).digest()).decode()
    if status.split(" ")[1:2] != ["101"] or headers.get("sec-websocket-accept") != accept:
        raise WebSocketError(f"the job service answers {status!r}")
