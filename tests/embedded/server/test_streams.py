"""The framing that kubectl's exec and port-forward use, end to end over real WebSockets on loopback."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import msgspec
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from edl.embedded.streaming import spdy, streams

Serve = Callable[[Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]], Awaitable[str]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Serve one handler on a free port; the result is its URL."""
    runners: list[web.ServerRunner] = []

    async def start(handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> str:
        runner = web.ServerRunner(web.Server(handler))
        runners.append(runner)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    yield start
    for runner in runners:
        await runner.cleanup()


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@given(st.lists(st.binary(max_size=300), max_size=8), st.integers(1, 50))
def test_spdy_frames_survive_any_cut(payloads: list[bytes], cut: int) -> None:
    ours, theirs = spdy.Session(), spdy.Session()
    stream, wire = ours.open({"streamtype": "data", "port": "80"})
    wire += b"".join(spdy.data(stream, payload) for payload in payloads) + spdy.data(stream, b"", finished=True)
    events = [event for at in range(0, len(wire), cut) for event in theirs.feed(wire[at : at + cut])]
    assert events[0] == spdy.Opened(stream, {"streamtype": "data", "port": "80"})
    assert [event.payload for event in events[1:] if isinstance(event, spdy.Data)] == [*payloads, b""]
    assert events[-1] == spdy.Data(stream, b"", True)


@given(st.binary(max_size=200))
def test_spdy_garbage_is_refused_and_never_crashes(garbage: bytes) -> None:
    session = spdy.Session()
    with contextlib.suppress(spdy.SpdyError):
        assert all(isinstance(event, spdy.Event) for event in session.feed(b"\x80\x03\x00\x01\x00\x00\x00" + garbage))


async def _echo(request: web.BaseRequest) -> web.StreamResponse:
    """A command that copies its input to both outputs and exits with the width of its terminal."""
    command = await streams.RemoteCommand.accept(request)
    code = 0
    async for event in command:
        match event:
            case streams.Resize(width, _):
                code = width
            case streams.Input(None):
                break
            case streams.Input(data):
                assert data is not None
                await command.write(streams.STDOUT, data.upper())
                await command.write(streams.STDERR, data)
    await command.finish(code)
    return command.socket


async def test_the_older_protocol_takes_input_as_text_too(serve: Serve, http: aiohttp.ClientSession) -> None:
    """It has no word for the end of the input; the command ends by itself, or when the client goes."""
    async with http.ws_connect(await serve(_echo), protocols=["v4.channel.k8s.io"]) as socket:
        assert socket.protocol == "v4.channel.k8s.io"
        await socket.send_str("\0wörds")
        assert (await socket.receive_bytes()) == b"\1" + "wörds".encode().upper()
        assert (await socket.receive_bytes()) == b"\2" + "wörds".encode()


async def _exec(http: aiohttp.ClientSession, url: str, *sent: bytes) -> list[tuple[int, bytes]]:
    async with http.ws_connect(url, protocols=["v5.channel.k8s.io"]) as socket:
        assert socket.protocol == "v5.channel.k8s.io"
        for message in sent:
            await socket.send_bytes(message)
        return [(message.data[0], message.data[1:]) async for message in socket]


@pytest.mark.parametrize("code", [0, 3])
async def test_exec_through_the_api_servers_relay(serve: Serve, http: aiohttp.ClientSession, code: int) -> None:
    node = await serve(_echo)

    async def forward(request: web.BaseRequest) -> web.StreamResponse:
        client = web.WebSocketResponse(protocols=streams.REMOTE_COMMAND_PROTOCOLS)
        await client.prepare(request)
        await streams.relay(client, await http.ws_connect(node, protocols=["v5.channel.k8s.io"]))
        return client

    size = msgspec.json.encode({"Width": code, "Height": 1})
    got = await _exec(http, await serve(forward), b"\x00ab", b"\x04" + size, b"\xff\x00")
    assert got[:2] == [(streams.STDOUT, b"AB"), (streams.STDERR, b"ab")]
    channel, end = got[2]
    assert channel == streams.ERROR
    assert msgspec.json.decode(end) == streams.outcome(code)


def test_outcome_names_the_exit_code_as_kubectl_reads_it() -> None:
    assert streams.outcome(7)["details"] == {"causes": [{"reason": "ExitCode", "message": "7"}]}
    assert streams.outcome(0) == {"metadata": {}, "status": "Success"}
    assert streams.outcome(0, "no such container")["message"] == "no such container"


class _Forwarder:
    """kubectl's end of a port-forward."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket, self.session = socket, spdy.Session()

    async def open(self, request: int, port: int = 80) -> tuple[int, int]:
        numbers = []
        for kind in ("error", "data"):
            stream, frame = self.session.open({"streamtype": kind, "port": str(port), "requestid": str(request)})
            await self.socket.send_bytes(frame)
            numbers.append(stream)
        return numbers[0], numbers[1]

    async def collect(self, *wanted: int) -> dict[int, bytes]:
        """What arrives on some streams until each of them is finished."""
        received = dict.fromkeys(wanted, b"")
        open_streams = set(wanted)
        while open_streams:
            for event in self.session.feed(await self.socket.receive_bytes()):
                if isinstance(event, spdy.Data) and event.stream in open_streams:
                    received[event.stream] += event.payload
                    open_streams -= {event.stream} if event.finished else set()
        return received


async def _echo_server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1000):
        writer.write(data)
    writer.close()


async def test_port_forward_carries_many_connections_both_ways(serve: Serve, http: aiohttp.ClientSession) -> None:
    server = await asyncio.start_server(_echo_server, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async def node(request: web.BaseRequest) -> web.StreamResponse:
        return await streams.serve_port_forward(request, lambda _port: asyncio.open_connection("127.0.0.1", port))

    async with server, http.ws_connect(await serve(node), protocols=[streams.PORT_FORWARD_PROTOCOL]) as socket:
        client = _Forwarder(socket)
        pairs = [await client.open(number) for number in range(3)]
        for number, (_, data) in enumerate(pairs):
            await socket.send_bytes(spdy.data(data, bytes([65 + number]) * 100_000))
            await socket.send_bytes(spdy.data(data, b"", finished=True))
        received = await client.collect(*(data for _, data in pairs))
    assert [received[data] for _, data in pairs] == [bytes([65 + number]) * 100_000 for number in range(3)]


async def test_port_forward_says_why_a_port_cannot_be_reached(serve: Serve, http: aiohttp.ClientSession) -> None:
    async def refuse(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raise ConnectionRefusedError(f"nobody listens on {port}")

    async def node(request: web.BaseRequest) -> web.StreamResponse:
        return await streams.serve_port_forward(request, refuse)

    async with http.ws_connect(await serve(node), protocols=[streams.PORT_FORWARD_PROTOCOL]) as socket:
        client = _Forwarder(socket)
        error, data = await client.open(0, port=81)
        received = await client.collect(error, data)
    assert received[error] == b"error forwarding port 81: nobody listens on 81"
