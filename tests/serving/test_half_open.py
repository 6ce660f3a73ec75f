"""Thousands of clients that connect and say nothing, or half of something: memory stays small, descriptors run out
quietly, and an honest client is served all the while."""

import asyncio
import contextlib
import resource
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest
from aiohttp import web

import edl
from edl.runtime import rpc
from edl.serving import http
from tests.serving.server_process import Hello

pytestmark = pytest.mark.case("attack-9")

CLIENTS = 4000
MIB = 1 << 20


class Served:
    def __init__(self, which: str, process: "subprocess.Popen[str]", log: Path) -> None:
        assert process.stdout is not None
        self.which, self.process, self.log = which, process, log
        self.port = int(process.stdout.readline())

    @property
    def memory(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def ask(self) -> None:
        """An honest client, which tries again as honest ones do."""
        until = time.monotonic() + 120
        while True:
            try:
                return self._ask_http() if self.which == "http" else self._ask_raw()
            except OSError:
                assert time.monotonic() < until, "nobody is served"

    def _ask_http(self) -> None:
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as plain, tls.wrap_socket(plain) as secure:
            secure.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good\r\n\r\n")
            if not secure.recv(100).startswith(b"HTTP/1.1 200"):
                raise ConnectionError("no answer")

    def _ask_raw(self) -> None:
        with contextlib.closing(rpc.Client(f"127.0.0.1:{self.port}", "token", timeout=30)) as client:
            client.call(Hello(), rpc.Nothing)


@contextlib.contextmanager
def served(which: str, tmp_path: Path, *words: str) -> Iterator[Served]:
    log = tmp_path / "log"
    with log.open("w") as out:
        command = [sys.executable, "-m", "tests.serving.server_process", which, *words]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=out, text=True)
    try:
        yield Served(which, process, log)
    finally:
        process.communicate(timeout=60)


@contextlib.contextmanager
def clients(port: int, count: int, words: bytes) -> Iterator[list[socket.socket]]:
    """Connected, or in the queue of the server's system; each has sent `words`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, count + 500)), hard))
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        made = []
        for _ in range(count):
            one = stack.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
            made.append(one)
        for one in made:
            with contextlib.suppress(OSError):
                one.send(words)
        yield made


@pytest.mark.parametrize(
    ("which", "words"),
    [
        pytest.param("http", b"", id="silent"),
        pytest.param("http", b"\x16\x03\x01\x02\x00\x01\x00", id="half of a TLS handshake"),
        pytest.param("raw", b"", id="silent, at a master or parameter server"),
        pytest.param("raw", b"EDL", id="half of a greeting, at a master or parameter server"),
    ],
)
def test_thousands_of_half_open_clients_stay_small(which: str, words: bytes, tmp_path: Path) -> None:
    with served(which, tmp_path) as server:
        server.ask()
        before = server.memory
        with clients(server.port, CLIENTS, words):
            server.ask()
            server.ask()
            grown = server.memory - before
        print(f"{CLIENTS} half-open clients: {grown / MIB:.0f} MiB more")
        assert grown < 100 * MIB
        server.ask()


def test_half_a_request_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    """After the handshake, a header that never ends, of each of many clients."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    with served("http", tmp_path) as server, contextlib.ExitStack() as stack:
        made = []
        for _ in range(50):
            plain = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=60))
            made.append(stack.enter_context(tls.wrap_socket(plain)))
            made[-1].sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        for one in made:
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                assert one.recv(100) == b"", "it is closed"


def test_a_refused_call_ends_its_connection(tmp_path: Path) -> None:
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    with (
        served("http", tmp_path) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=60) as plain,
        tls.wrap_socket(plain) as secure,
    ):
        secure.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer bad\r\n\r\n")
        answer = b""
        while piece := secure.recv(1000):
            answer += piece
        assert answer.startswith(b"HTTP/1.1 401")


@pytest.mark.parametrize("which", ["http", "raw"])
def test_running_out_of_descriptors_is_said_once_and_survived(which: str, tmp_path: Path) -> None:
    with served(which, tmp_path, "60") as server:
        with clients(server.port, 300, b""):
            server.ask()
        server.ask()
        said = server.log.read_text()
    assert said.count("file descriptor") + said.count("connections are open") <= 2, said
    assert len(said.splitlines()) < 20, said


def test_every_listener_of_ours_is_bounded() -> None:
    """Servers of aiohttp by `edl.serving.http`, those on plain sockets by `edl.runtime.rpc`."""
    unbounded = ("TCPSite", "start_server(", "create_server(", "AppRunner(", "run_app(")
    allowed = {
        "serving/http.py",
        "runtime/rpc.py",  # masters and parameter servers: `Server` bounds what its listener accepts
    }
    source = Path(edl.__file__).parent
    found = {
        str(file.relative_to(source))
        for file in source.rglob("*.py")
        if any(word in file.read_text() for word in unbounded)
    }
    assert found == allowed


def test_whoever_looks_at_tokens_says_when_one_is_good() -> None:
    """Else its honest clients would be shed with the strangers."""
    asks_for_none = {
        "operator/webhook.py",
        "kube/controllers/manager.py",
        "embedded/node/network/endpoint.py",  # but for a certificate
    }
    source = Path(edl.__file__).parent
    texts = {str(file.relative_to(source)): file.read_text() for file in source.rglob("*.py")}
    servers = {name for name, text in texts.items() if "await serve_app(" in text or "await listen(self" in text}
    assert {name for name in servers if "proved(" not in texts[name]} == asks_for_none


@pytest.fixture
async def small(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[int, list[str]]]:
    """A server of an application, with tight bounds; its port, and the calls that it got."""
    monkeypatch.setattr(http, "DEFAULTS", http.HttpLimits(connections=20, unproven=8, grace=0.05, first=0.5, body=0.5))
    calls: list[str] = []

    async def take(request: web.Request) -> web.Response:
        calls.append(request.path)
        http.proved(request)
        return web.Response(text=str(len(await request.read())))

    app = web.Application()
    app.router.add_post("/", take)
    runner = await http.serve_app(app, "127.0.0.1", 0)
    yield runner.addresses[0][1], calls
    await runner.cleanup()


async def test_a_body_that_does_not_come_ends_the_connection(small: tuple[int, list[str]]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", small[0])
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: x\r\nContent-Length: 100\r\n\r\nhalf")
    with contextlib.suppress(ConnectionError):
        assert await reader.read() == b""
    assert small[1] == ["/"], "it was called, and given up"
    writer.close()


async def test_a_call_with_a_token_outlives_any_number_of_strangers(small: tuple[int, list[str]]) -> None:
    """Whoever proves itself keeps its connection; strangers push out each other."""
    reader, writer = await asyncio.open_connection("127.0.0.1", small[0])
    call = b"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: x\r\nContent-Length: 2\r\n\r\nhi"
    writer.write(call)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
    assert await reader.readexactly(1) == b"2"
    strangers = [await asyncio.open_connection("127.0.0.1", small[0]) for _ in range(100)]
    for stranger, _ in strangers:
        with contextlib.suppress(ConnectionError):
            assert await stranger.read() == b"", "each is closed in the end"
    writer.write(call)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
    for _, one in [*strangers, (reader, writer)]:
        one.close()


async def test_a_header_that_nobody_looked_at_proves_nothing() -> None:
    """The attack: strangers who send any token, to where none is asked for. Once each kept its connection by that."""
    limits = http.HttpLimits(connections=20, unproven=8, grace=0.05)
    runner = await http.serve_app(web.Application(), "127.0.0.1", 0, limits=limits)
    made = []
    for _ in range(16):
        reader, writer = await asyncio.open_connection("127.0.0.1", runner.addresses[0][1])
        writer.write(b"GET /nowhere HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\n\r\n")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 404")
        assert await reader.readuntil(b"404: Not Found")
        made.append((reader, writer))
    async with asyncio.timeout(60):
        for reader, _ in made[:8]:
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b"", "it went for a later one"
    for _, one in made:
        one.close()
    await runner.cleanup()


async def test_of_too_many_connections_those_that_rest_go(small: tuple[int, list[str]]) -> None:
    call = b"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: x\r\nContent-Length: 2\r\n\r\nhi"
    made = []
    for _ in range(40):
        reader, writer = await asyncio.open_connection("127.0.0.1", small[0])
        writer.write(call)
        assert (await reader.readuntil(b"\r\n\r\n2")).startswith(b"HTTP/1.1 200")
        made.append((reader, writer))
    with contextlib.suppress(ConnectionError):
        assert await made[0][0].read() == b"", "the first has rested longest"
    for _, one in made:
        one.close()
