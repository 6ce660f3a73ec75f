"""exec, attach and port-forward between kubectl, the API server and a process node.

The API server knows a pod's node by `spec.nodeName` and calls that node's kubelet endpoint, `status.addresses`
(InternalIP) and `status.daemonEndpoints.kubeletEndpoint.Port`, over HTTPS, at the kubelet's own paths:

    GET /containerLogs/{namespace}/{pod}/{container}
        ?follow&tailLines&sinceSeconds&sinceTime&timestamps&previous&limitBytes
    GET /exec/{namespace}/{pod}/{container}?command=..&input=1&output=1&error=1&tty=1    (WebSocket, v5.channel.k8s.io)
    GET /attach/{namespace}/{pod}/{container}?input=1&output=1&error=1&tty=1             (WebSocket, v5.channel.k8s.io)
    GET /portForward/{namespace}/{pod}                                   (WebSocket, SPDY/3.1+portforward.k8s.io)
    GET /portForward/{namespace}/{pod}?port=..                           (WebSocket, v4.channel.k8s.io)

It presents a client certificate of the cluster's authority (CN `kube-apiserver-kubelet-client`, group
`system:masters`): a node serves only clients with a certificate of that authority. A node that declares
the feature `ExtendWebSocketsToKubelet` in `status.declaredFeatures` gets the same WebSockets from a real API server
(1.36 and newer), so one implementation serves both.

For a node: `RemoteCommand.accept(request)` and `serve_port_forward(request, connect)`. For the API server: `relay`.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from aiohttp import ClientWebSocketResponse, WSMsgType, web

from edl.embedded.streaming import spdy
from edl.embedded.streaming.channels import CHANNEL_PROTOCOL, ChannelForwarding, Connect, ports_of

REMOTE_COMMAND_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
PORT_FORWARD_PROTOCOL = "SPDY/3.1+portforward.k8s.io"
PORT_FORWARD_PROTOCOLS = (PORT_FORWARD_PROTOCOL, CHANNEL_PROTOCOL)
NODE_CLIENT = "kube-apiserver-kubelet-client"
WEBSOCKET_FEATURE = "ExtendWebSocketsToKubelet"

STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
_CHUNK = 32 << 10
_MESSAGE_LIMIT = 16 << 20


class Input(msgspec.Struct, frozen=True):
    """Bytes for the command's standard input; None when the client has closed it."""

    data: bytes | None


class Resize(msgspec.Struct, frozen=True):
    width: int
    height: int


class RemoteCommand:
    """A node's end of exec or attach. `async for` over it yields Input and Resize until the client is gone."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self.socket = socket

    @classmethod
    async def accept(cls, request: web.BaseRequest) -> "RemoteCommand":
        socket = web.WebSocketResponse(protocols=REMOTE_COMMAND_PROTOCOLS, max_msg_size=_MESSAGE_LIMIT, timeout=2)
        await socket.prepare(request)
        return cls(socket)

    async def __aiter__(self) -> AsyncIterator[Input | Resize]:
        async for message in self.socket:
            if message.type not in (WSMsgType.BINARY, WSMsgType.TEXT) or not message.data:
                continue
            # The official Python client writes text as text, its first character being the channel.
            event = _incoming(message.data.encode() if message.type is WSMsgType.TEXT else message.data)
            if event is not None:
                yield event

    async def write(self, channel: int, data: bytes) -> None:
        """Sends output on STDOUT or STDERR. A client that is gone is no error of the command."""
        with contextlib.suppress(ConnectionError):
            await self.socket.send_bytes(bytes([channel]) + data)

    async def finish(self, exit_code: int = 0, *, failure: str = "") -> None:
        """Reports how the command ended (or why it could not run) and closes."""
        await self.write(ERROR, msgspec.json.encode(outcome(exit_code, failure)))
        await self.socket.close()


def _incoming(message: bytes) -> Input | Resize | None:
    channel, payload = message[0], message[1:]
    if channel == STDIN:
        return Input(payload) if payload else None
    if channel == CLOSE and payload[:1] == bytes([STDIN]):
        return Input(None)
    if channel == RESIZE:
        with contextlib.suppress(msgspec.MsgspecError):
            size = msgspec.json.decode(payload, type=dict[str, int])
            return Resize(size.get("Width", 0), size.get("Height", 0))
    return None


def outcome(exit_code: int, failure: str = "") -> dict[str, Any]:
    """The Status that ends a remote command: success, an exit code, or the reason for having none."""
    if failure:
        return {"metadata": {}, "status": "Failure", "message": failure, "reason": "InternalError", "code": 500}
    if exit_code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {exit_code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]},
    }


async def serve_port_forward(request: web.BaseRequest, connect: Connect) -> web.WebSocketResponse:
    """A node's end of port-forward: serves any number of connections until the client is gone."""
    socket = web.WebSocketResponse(protocols=PORT_FORWARD_PROTOCOLS, max_msg_size=_MESSAGE_LIMIT, timeout=2)
    if socket.can_prepare(request).protocol == CHANNEL_PROTOCOL:
        return await _forward_channels(request, connect, socket)
    await socket.prepare(request)
    forwarding = _Forwarding(socket, connect)
    try:
        async for message in socket:
            if message.type is WSMsgType.BINARY:
                await forwarding.feed(message.data)
    except spdy.SpdyError:
        pass  # a peer of another protocol gets no error, only the close
    finally:
        await forwarding.stop()
        await socket.close()
    return socket


async def _forward_channels(
    request: web.BaseRequest, connect: Connect, socket: web.WebSocketResponse
) -> web.WebSocketResponse:
    try:
        ports = ports_of(request.query.getall("port", []))
    except ValueError as error:
        raise web.HTTPBadRequest(text=str(error)) from None
    await socket.prepare(request)
    await ChannelForwarding(socket, connect, ports).serve()
    await socket.close()
    return socket


class _Forwarding:
    """The streams of one client. A forwarded connection is a pair, an error and a data stream, with one request id."""

    def __init__(self, socket: web.WebSocketResponse, connect: Connect) -> None:
        self._socket = socket
        self._connect = connect
        self._session = spdy.Session()
        self._halves: dict[str, dict[str, int]] = {}
        self._inbox: dict[int, asyncio.Queue[bytes | None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def feed(self, received: bytes) -> None:
        for event in self._session.feed(received):
            match event:
                case spdy.Opened():
                    await self._opened(event)
                case spdy.Data(stream, payload, finished) if stream in self._inbox:
                    if payload:
                        await self._inbox[stream].put(payload)
                    if finished:
                        await self._inbox[stream].put(None)
                case spdy.Reset(stream) if stream in self._inbox:
                    await self._inbox[stream].put(None)
                case spdy.Pinged(answer):
                    await self._send(answer)

    async def _opened(self, event: spdy.Opened) -> None:
        headers = event.headers
        kind, port = headers.get("streamtype", ""), headers.get("port", "")
        if kind not in ("data", "error") or not port.isdigit():
            await self._send(spdy.reset(event.stream))
            return
        await self._send(self._session.reply(event.stream))
        request = headers.get("requestid", str(event.stream if kind == "error" else event.stream - 2))
        halves = self._halves.setdefault(request, {})
        halves[kind] = event.stream
        if kind == "data":
            self._inbox[event.stream] = asyncio.Queue(maxsize=64)
        if len(halves) == 2:
            del self._halves[request]
            task = asyncio.create_task(self._forward(int(port), halves["data"], halves["error"]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _forward(self, port: int, data: int, error: int) -> None:
        try:
            reader, writer = await self._connect(port)
        except OSError as problem:
            text = f"error forwarding port {port}: {problem}"
            await self._send(spdy.data(error, text.encode(), finished=True))
            await self._send(spdy.data(data, b"", finished=True))
            self._inbox.pop(data, None)
            return
        try:
            await asyncio.gather(self._upload(data, writer), self._download(data, reader))
        except OSError as problem:
            await self._send(spdy.data(error, f"error forwarding port {port}: {problem}".encode()))
        finally:
            self._inbox.pop(data, None)
            writer.close()
        await self._send(spdy.data(error, b"", finished=True))

    async def _upload(self, stream: int, writer: asyncio.StreamWriter) -> None:
        inbox = self._inbox[stream]
        while (payload := await inbox.get()) is not None:
            writer.write(payload)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()

    async def _download(self, stream: int, reader: asyncio.StreamReader) -> None:
        while payload := await reader.read(_CHUNK):
            await self._send(spdy.data(stream, payload))
        await self._send(spdy.data(stream, b"", finished=True))
        if stream in self._inbox:  # the pod is done; nothing more of the client's can reach it
            with contextlib.suppress(asyncio.QueueFull):
                self._inbox[stream].put_nowait(None)

    async def _send(self, frame: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            await self._socket.send_bytes(frame)

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def relay(client: web.WebSocketResponse, node: ClientWebSocketResponse) -> None:
    """The API server's part: passes messages both ways, unread, until either end closes; then closes both."""
    pumps = [asyncio.create_task(_pump(client, node)), asyncio.create_task(_pump(node, client))]
    try:
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        # What the node said last (the exit code) must reach the client even when both closed at once.
        await asyncio.wait(pumps[1:], timeout=1)
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        await node.close()
        await client.close()


Socket = web.WebSocketResponse | ClientWebSocketResponse


async def _pump(source: Socket, sink: Socket) -> None:
    with contextlib.suppress(ConnectionError):
        async for message in source:
            if message.type is WSMsgType.BINARY:
                await sink.send_bytes(message.data)
            elif message.type is WSMsgType.TEXT:
                await sink.send_str(message.data)
