"""Serves aiohttp applications within bounds: header and idle time-outs, connections, and memory before authentication.

A connection is *unproven* until it has shown a client certificate, or whoever answers a call on it has found its token
to be good and says so (`proved`). There are at most `unproven` of those, whatever they do; further ones wait in the
system's queue for a moment, then the oldest of the peer that has most goes (see `unproven`). A 401 ends its connection.
Of all connections there are at most `connections`; when there are that many, those that rest go first.
"""

import asyncio
import asyncio.sslproto
import contextlib
import logging
import resource
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from edl.serving.acceptor import BACKLOG, Acceptor, bind
from edl.serving.scarcity import Notice
from edl.serving.unproven import Unproven

log = logging.getLogger(__name__)

# asyncio gives every TLS connection a buffer of 256 KiB at once, for which four records of 16 KiB are plenty.
TLS_BUFFER = 64 << 10
MAX_HEADERS = 64  # of 8 KiB each: what a stranger's call can hold before it is refused
FAREWELL = 2.0  # seconds that a peer has to end TLS in an orderly way
RESERVED_DESCRIPTORS = 256  # for files and for connections of our own

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

_malformed = Notice(log, "a malformed request was refused (%s)")
_too_many = Notice(log, "%d connections are open, the most that there may be: some were closed")


class HttpLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Of one server. Times are in seconds."""

    connections: int = 20_000
    unproven: int = 256
    grace: float = 1.0  # that an unproven connection has in any case
    first: float = 15.0  # for the TLS handshake and the headers of the first call
    idle: float = 120.0  # between two calls, with the headers of the second
    body: float = 60.0  # for the body of a call


DEFAULTS = HttpLimits()


async def serve_app(
    app: web.Application,
    host: str,
    port: int,
    *,
    tls: ssl.SSLContext | None = None,
    shutdown_timeout: float = 1.0,
    limits: HttpLimits | None = None,
) -> web.AppRunner:
    """Listens until the runner's `cleanup()`; `runner.addresses` says where."""
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=shutdown_timeout)
    await runner.setup()
    try:
        await listen(runner, host, port, tls=tls, limits=limits)
    except BaseException:
        await runner.cleanup()
        raise
    return runner


async def listen(
    runner: web.BaseRunner,
    host: str,
    port: int,
    *,
    tls: ssl.SSLContext | None = None,
    limits: HttpLimits | None = None,
) -> None:
    """Like `web.TCPSite(runner, host, port).start()`, within bounds. One listener for each runner."""
    await BoundedSite(runner, host, port, tls, limits or DEFAULTS).start()


def proved(request: web.BaseRequest) -> None:
    """The call bore a token that is good: its connection is no stranger's any more. A header alone proves nothing, for
    anybody can send one, also where nobody looks at it."""
    if isinstance(request.protocol, _Connection):
        request.protocol.prove()


class BoundedSite(web.BaseSite):
    __slots__ = ("_connections", "_host", "_limits", "_port")

    def __init__(
        self, runner: web.BaseRunner, host: str, port: int, tls: ssl.SSLContext | None, limits: HttpLimits
    ) -> None:
        super().__init__(runner, ssl_context=tls, backlog=BACKLOG)
        self._host, self._port, self._limits = host, port, limits
        assert runner.server is not None, "the runner is set up"
        self._connections = _Connections(runner.server, tls, limits)

    @property
    def name(self) -> str:
        return f"{'https' if self._ssl_context else 'http'}://{self._host}:{self._port}"

    async def start(self) -> None:
        sockets = await bind(self._host, self._port)
        await super().start()
        self._server = self._connections.listen(sockets)

    async def stop(self) -> None:
        await super().stop()
        self._connections.close()


class _Connection(web.RequestHandler):
    """One connection: aiohttp's handler, which tells us when it ends."""

    __slots__ = ("_all", "called", "peer", "task")

    def __init__(self, connections: "_Connections", server: web.Server, idle: float, peer: str) -> None:
        options: dict[str, Any] = {"access_log": None, "max_headers": MAX_HEADERS, "lingering_time": FAREWELL}
        super().__init__(server, loop=asyncio.get_running_loop(), keepalive_timeout=idle, **options)
        self._all, self.peer, self.called = connections, peer, False
        self.task: asyncio.Task[None] | None = None  # until it is established

    def prove(self) -> None:
        self._all.proved(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._all.lost(self)
        super().connection_lost(exc)

    def log_exception(self, *args: Any, **options: Any) -> None:
        """A request that is no HTTP is quoted by its error, and a header may bear a token: its kind is told, once a
        minute. What our own code raises is logged as ever."""
        error = options.get("exc_info")
        if isinstance(error, HttpProcessingError):
            _malformed(type(error).__name__)
        else:
            super().log_exception(*args, **options)

    def end(self) -> None:
        if self.task is not None:
            self.task.cancel()  # in its handshake
        if self.transport is not None:
            self.transport.abort()


class _Connections:
    """All connections of one server."""

    def __init__(self, server: web.Server, tls: ssl.SSLContext | None, limits: HttpLimits) -> None:
        self._server, self._tls, self._limits = server, tls, limits
        self._most = _most(limits.connections)
        self._loop = asyncio.get_running_loop()
        self._unproven: Unproven[_Connection] = Unproven()
        self._resting: dict[_Connection, None] = {}  # proven and without a call, the one that rests longest first
        self._open: set[_Connection] = set()
        self._sweeper: asyncio.TimerHandle | None = None
        self._handle: Handler = server.request_handler
        server.request_handler = self._call
        if tls is not None:
            asyncio.sslproto.SSLProtocol.max_size = min(TLS_BUFFER, asyncio.sslproto.SSLProtocol.max_size)

    def listen(self, sockets: list[socket.socket]) -> Acceptor:
        self._acceptor = Acceptor(sockets, self._accepted, shed=self._shed, wait=self._wait)
        return self._acceptor

    def close(self) -> None:
        """Ends those that are not established; aiohttp ends the others."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in [one for one in self._open if one.task is not None]:
            connection.end()

    # A connection comes and goes.

    def _accepted(self, sock: socket.socket, peer: str) -> None:
        connection = _Connection(self, self._server, self._limits.idle, peer)
        self._open.add(connection)
        self._unproven.add(connection, peer, self._loop.time())
        connection.task = self._loop.create_task(self._establish(connection, sock))
        connection.task.add_done_callback(lambda task: sock.close() if task.cancelled() else None)
        self._sweep_later()
        if len(self._open) > self._most:
            _too_many(self._most)
            if not self._shed():
                self._end(connection)

    async def _establish(self, connection: _Connection, sock: socket.socket) -> None:
        timing = {"ssl_handshake_timeout": self._limits.first, "ssl_shutdown_timeout": FAREWELL} if self._tls else {}
        try:
            await self._loop.connect_accepted_socket(lambda: connection, sock, ssl=self._tls, **timing)
        except OSError:  # also a time-out: strangers are not worth a word each
            sock.close()
            self.lost(connection)
        finally:
            connection.task = None

    def lost(self, connection: _Connection) -> None:
        self._open.discard(connection)
        self._resting.pop(connection, None)
        self.proved(connection)

    def proved(self, connection: _Connection) -> None:
        """Or gone: it no longer counts among the unproven."""
        if connection in self._unproven:
            self._unproven.discard(connection)
            if len(self._unproven) == self._limits.unproven - 1:
                self._acceptor.resume()

    # What goes when there are too many.

    def _wait(self) -> float:
        """Seconds until another connection may come: of too many unproven ones, one that has had its time goes."""
        if len(self._unproven) < self._limits.unproven:
            return 0.0
        victim = self._unproven.victim(before=self._loop.time() - self._limits.grace)
        if victim is None:
            return self._limits.grace / 4
        self._end(victim)
        return 0.0

    def _shed(self) -> bool:
        """Ends the connection that can be missed most easily. False if there is none."""
        victim = self._unproven.victim(before=self._loop.time() - self._limits.grace) or next(iter(self._resting), None)
        if victim is None:
            return False
        self._end(victim)
        return True

    def _end(self, connection: _Connection) -> None:
        connection.end()
        self.lost(connection)

    def _sweep_later(self) -> None:
        if self._sweeper is None and (oldest := self._unproven.oldest()) is not None:
            due = max(oldest[1] + self._limits.first, self._loop.time() + self._limits.first / 8)
            self._sweeper = self._loop.call_at(due, self._sweep)

    def _sweep(self) -> None:
        """Ends those that have not made a call in time. Who has made one is left to the idle time-out."""
        self._sweeper, now = None, self._loop.time()
        while (oldest := self._unproven.oldest()) is not None and oldest[1] <= now - self._limits.first:
            if oldest[0].called:
                self._unproven.discard(oldest[0])
                self._unproven.add(oldest[0], oldest[0].peer, now)
            else:
                self._end(oldest[0])
        self._sweep_later()

    # A call begins and ends.

    async def _call(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        assert isinstance(connection, _Connection)
        connection.called = True
        self._resting.pop(connection, None)
        if request.get_extra_info("peercert"):
            self.proved(connection)
        try:
            with self._body_in_time(request):
                response = await self._handle(request)
        finally:
            if connection in self._open and connection not in self._unproven:
                self._resting[connection] = None
        if response.status == 401 and not response.prepared:
            response.force_close()
        return response

    @contextlib.contextmanager
    def _body_in_time(self, request: web.BaseRequest) -> Iterator[None]:
        """Ends the connection if the body of the call is not there in time."""
        content = request.content
        if not request.can_read_body or content.is_eof() or "Upgrade" in request.headers:
            yield
            return

        def check() -> None:
            if not content.is_eof() and request.transport is not None:
                request.transport.abort()

        timer = self._loop.call_later(self._limits.body, check)
        try:
            yield
        finally:
            timer.cancel()


def _most(wanted: int) -> int:
    """As many connections as the process has descriptors for, beside those that it needs itself."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(16, min(wanted, soft - min(RESERVED_DESCRIPTORS, soft // 2)))
