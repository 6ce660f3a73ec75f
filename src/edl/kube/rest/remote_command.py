"""A command in a container of a pod, as `kubectl exec` runs one: channels of bytes over a WebSocket.

The newer of the two protocols (v5) can say that the input has ended; with the older one (v4) a command that reads to
the end of its input never gets there.
"""

import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec

from edl.kube.rest.errors import ConnectionLostError
from edl.kube.rest.transport import HttpTransport

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")


class CommandOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`container` empty: the pod's first."""

    container: str = ""
    stdin: bool = False
    tty: bool = False


class RemoteCommand:
    """`async for` over it yields output as (channel, bytes) until the command has ended; then `exit_code` is known."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self.exit_code: int | None = None
        self.failure = ""
        """Why it could not run, if it could not."""

    async def __aiter__(self) -> AsyncIterator[tuple[int, bytes]]:
        async for message in self._socket:
            if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                continue
            channel, data = message.data[0], message.data[1:]
            if channel == ERROR:
                self.exit_code, self.failure = outcome(data)
            elif channel in (STDOUT, STDERR) and data:
                yield channel, data
        if self.exit_code is None:
            raise ConnectionLostError("the connection ended before the command did")

    async def write(self, data: bytes) -> None:
        await self._send(STDIN, data)

    async def end_input(self) -> None:
        """As far as the protocol has a word for it."""
        if self._socket.protocol == PROTOCOLS[0]:
            await self._send(CLOSE, bytes([STDIN]))

    async def resize(self, width: int, height: int) -> None:
        await self._send(RESIZE, json.dumps({"Width": width, "Height": height}).encode())

    async def _send(self, channel: int, data: bytes) -> None:
        with contextlib.suppress(ConnectionError, aiohttp.ClientError):  # it has ended: what it said last is still read
            await self._socket.send_bytes(bytes([channel]) + data)


@asynccontextmanager
async def remote_command(
    transport: HttpTransport, namespace: str, pod: str, command: Sequence[str], options: CommandOptions
) -> AsyncIterator[RemoteCommand]:
    """ApiError if the cluster refuses, ConnectionLostError if it goes away."""
    query = [*(("command", word) for word in command), ("stdout", "true")]
    # A terminal has one stream for both.
    flags = {"stdin": options.stdin, "tty": options.tty, "stderr": not options.tty}
    query += [(name, "true") for name, wanted in flags.items() if wanted]
    query += [("container", options.container)] if options.container else []
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/exec"
    async with transport.websocket(path, query, PROTOCOLS) as socket:
        yield RemoteCommand(socket)


def outcome(data: bytes) -> tuple[int, str]:
    """The exit code in the Status that ends a command, and a reason if it did not run."""
    try:
        status: Any = json.loads(data)
        if status.get("status") == "Success":
            return 0, ""
        causes = (status.get("details") or {}).get("causes") or ()
        codes = [cause["message"] for cause in causes if cause.get("reason") == "ExitCode"]
        return (int(codes[0]), "") if codes else (1, str(status.get("message", "")))
    except (ValueError, TypeError, AttributeError, KeyError):
        return 1, data.decode(errors="replace")
