"""How a request reaches an API server: over HTTP, or straight into a callable (the embedded store, a simulation).

A transport carries one request once. Deadlines, retries, budgets and decoding are the client's, so that a simulation
runs the very same code. Whatever breaks below is raised as ConnectionLostError; nobody above knows aiohttp.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Protocol

import aiohttp
import msgspec
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from .chunks import BulkHandler
from .credentials import Account, Auth
from .errors import ConnectionLostError, UntrustedServerError

JSON = "application/json"


class Request(msgspec.Struct, frozen=True):
    method: str
    path: str
    query: Mapping[str, str] = {}
    body: bytes | None = None
    content_type: str = JSON
    accept: str = JSON
    headers: Mapping[str, str] = {}
    """For whoever is behind the server (a proxied service); the server's own are set elsewhere."""

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

    def __init__(self, account: Account, *, user_agent: str = "edl") -> None:
        self._account = account
        self._base = account.server.rstrip("/")
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

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    @asynccontextmanager
    async def _send(self, request: Request) -> AsyncIterator[aiohttp.ClientResponse]:
        try:
            auth = await self._account.login(None)
            answer = await self._attempt(request, auth)
            if answer.status == 401:
                answer.release()
                answer = await self._attempt(request, await self._account.login(auth))
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

    async def _attempt(self, request: Request, auth: Auth) -> aiohttp.ClientResponse:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0)  # a watch holds its connection: a limit would starve the calls
            reader: type[ResponseHandler] = BulkHandler  # aiohttp has no public way to name one; its own is slower
            connector._factory = partial(reader, loop=asyncio.get_running_loop())
            jar = aiohttp.DummyCookieJar()  # nobody sends any, and looking for them costs with every call
            self._session = aiohttp.ClientSession(
                connector=connector, cookie_jar=jar, auto_decompress=False, read_bufsize=2**18
            )
        headers = {**request.headers, **self._headers, "Accept": request.accept, **auth.headers}
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        return await self._session.request(
            request.method,
            URL(self._base + request.path, encoded=True).with_query(request.query),
            data=request.body,
            headers=headers,
            ssl=auth.tls,
            server_hostname=self._account.server_name,
            proxy=self._account.proxy,
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
