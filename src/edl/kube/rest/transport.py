"""Transports: carry one request once, over HTTP or straight into a callable (the embedded store, a simulation).

Deadlines, retries, rate limits and decoding are the client's, so that a simulation runs the very same code. Whatever
breaks below is raised as ConnectionLostError; no code above knows aiohttp.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Protocol

import aiohttp
import msgspec
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from edl.kube.auth.credentials import Auth, ClientConfig
from edl.kube.rest.chunked_bodies import BulkHandler
from edl.kube.rest.errors import ApiError, ConnectionLostError, UntrustedServerError

JSON = "application/json"


class Request(msgspec.Struct, frozen=True):
    method: str
    path: str
    query: Mapping[str, str] = {}
    body: bytes | None = None
    content_type: str = JSON
    accept: str = JSON
    headers: Mapping[str, str] = {}
    """For a service behind the server's proxy; the server's own headers are set elsewhere."""

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Response(msgspec.Struct, frozen=True):
    """An answer. A streamed one has `chunks` (bytes as they arrive, cut anywhere) in place of a body."""

    code: int
    body: bytes | bytearray = b""
    headers: Mapping[str, str] = {}
    chunks: AsyncIterator[bytes] | None = None


class Transport(Protocol):
    async def request(self, request: Request) -> Response: ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[Response]: ...

    async def close(self) -> None: ...


class HttpTransport:
    """aiohttp. One session, opened with the first request; a 401 is answered once with fresh credentials."""

    def __init__(self, config: ClientConfig, *, user_agent: str = "edl") -> None:
        self._config = config
        self._base = config.server.rstrip("/")
        self._headers = {"User-Agent": user_agent, "Accept-Encoding": "identity"}
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=10.0)
        self._session: aiohttp.ClientSession | None = None

    async def request(self, request: Request) -> Response:
        async with self._send(request) as answer:
            body = bytearray()  # a list has megabytes: to gather the pieces first would need the memory twice
            async for piece in answer.content.iter_any():
                body += piece
            return Response(answer.status, body, answer.headers)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response]:
        async with self._send(request) as answer:
            yield Response(answer.status, headers=answer.headers, chunks=answer.content.iter_any())

    @asynccontextmanager
    async def websocket(
        self, path: str, query: Sequence[tuple[str, str]], protocols: Sequence[str]
    ) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """For `edl.kube.rest.remote_command`, which knows what is said on it."""
        what = f"GET {path}"
        url = URL(self._base + path, encoded=True).with_query(list(query))
        auth = await self._config.login(None)
        try:
            async with self._opened().ws_connect(
                url,
                protocols=protocols,
                headers={**self._headers, **auth.headers},
                ssl=auth.tls,
                server_hostname=self._config.server_name,
                proxy=self._config.proxy,
                max_msg_size=0,
            ) as socket:
                yield socket
        except aiohttp.WSServerHandshakeError as error:
            raise await self._refusal(what, url, auth, error) from error
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise ConnectionLostError(f"{what}: cannot reach {self._base}: {error}", sent=False) from error
        except (aiohttp.ClientError, OSError) as error:
            raise ConnectionLostError(f"{what}: {type(error).__name__}: {error}") from error

    async def _refusal(self, what: str, url: URL, auth: Auth, error: aiohttp.WSServerHandshakeError) -> ApiError:
        """aiohttp does not read what a server says that refuses a WebSocket. It says the same to a plain call, which
        begins nothing."""
        options = {"ssl": auth.tls, "server_hostname": self._config.server_name, "proxy": self._config.proxy}
        try:
            async with self._opened().get(url, headers={**self._headers, **auth.headers}, **options) as answer:  # type: ignore[arg-type]  # of ws_connect, too
                said = await answer.read() if answer.status == error.status else b""
        except (aiohttp.ClientError, OSError):
            said = b""
        return ApiError.from_answer(error.status, {}, said or error.message.encode(), what)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    @asynccontextmanager
    async def _send(self, request: Request) -> AsyncIterator[aiohttp.ClientResponse]:
        try:
            auth = await self._config.login(None)
            answer = await self._attempt(request, auth)
            if answer.status == 401:
                answer.release()
                answer = await self._attempt(request, await self._config.login(auth))
            try:
                yield answer
            finally:
                _let_go(answer)
        except aiohttp.ClientConnectorCertificateError as error:
            hint = "check certificate-authority and tls-server-name"
            raise UntrustedServerError(f"{request}: {self._base} is not trusted: {error}; {hint}") from error
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise ConnectionLostError(f"{request}: cannot reach {self._base}: {error}", sent=False) from error
        except (aiohttp.ClientError, asyncio.IncompleteReadError, OSError) as error:
            raise ConnectionLostError(f"{request}: {type(error).__name__}: {error}") from error

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0)  # a watch holds its connection: a limit would starve the calls
            reader: type[ResponseHandler] = BulkHandler  # aiohttp has no public way to name one; its own is slower
            connector._factory = partial(reader, loop=asyncio.get_running_loop())
            jar = aiohttp.DummyCookieJar()  # nobody sends any, and looking for them costs with every call
            self._session = aiohttp.ClientSession(
                connector=connector, cookie_jar=jar, auto_decompress=False, read_bufsize=2**18
            )
        return self._session

    async def _attempt(self, request: Request, auth: Auth) -> aiohttp.ClientResponse:
        session = self._opened()
        headers = {**request.headers, **self._headers, "Accept": request.accept, **auth.headers}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        return await session.request(
            request.method,
            URL(self._base + request.path, encoded=True).with_query(request.query),
            data=request.body,
            headers=headers,
            ssl=auth.tls,
            server_hostname=self._config.server_name,
            proxy=self._config.proxy,
            timeout=self._timeout,
            allow_redirects=False,
        )


def _let_go(answer: aiohttp.ClientResponse) -> None:
    """A connection whose answer was read is used again. One left in the middle of a stream is cut, not said good-bye
    to: TLS would wait for the other side, which may be the very reason why we leave."""
    if not answer.content.at_eof() and answer.connection is not None and answer.connection.transport is not None:
        answer.connection.transport.abort()
        answer.close()
    else:
        answer.release()


class DirectTransport:
    """Hands every request to one callable, which answers with a body or with chunks."""

    def __init__(self, handle: Callable[[Request], Awaitable[Response]]) -> None:
        self._handle = handle

    async def request(self, request: Request) -> Response:
        answer = await self._handle(request)
        if answer.chunks is None:
            return answer
        return Response(answer.code, b"".join([chunk async for chunk in answer.chunks]), answer.headers)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response]:
        answer = await self._handle(request)
        try:
            yield answer if answer.chunks is not None else msgspec.structs.replace(answer, chunks=_once(answer.body))
        finally:
            close = getattr(answer.chunks, "aclose", None)
            if close is not None:
                await close()

    async def close(self) -> None:
        return None


async def _once(body: bytes | bytearray) -> AsyncIterator[bytes]:
    yield bytes(body)
