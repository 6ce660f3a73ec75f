"""HTTP listener in front of `Api`, on aiohttp: authentication, limits of size and time, streaming. Decides nothing."""

import asyncio
import logging
import ssl
from typing import Any

from aiohttp import web

from edl.embedded.server import status
from edl.embedded.server.api import Api, NodeStream, Request
from edl.embedded.server.http.freed_memory import FreedMemory
from edl.embedded.server.http.node_proxy import NodeProxy
from edl.embedded.server.storage.watch import Watch
from edl.embedded.server.verbs.call import ANONYMOUS, JSON, Response, User, parse_query
from edl.serving.http import listen, proved

BODY_LIMIT = 3 << 20
BODY_SECONDS = 60.0
_SLOW_WATCH_BYTES = 64 << 20
_log = logging.getLogger(__name__)


def _bounded_request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=BODY_LIMIT)


class HttpListener:
    """One listening socket."""

    def __init__(self, api: Api, *, node_tls: ssl.SSLContext | None) -> None:
        self._api = api
        self._nodes = NodeProxy(api.core, node_tls)
        self._runner: web.ServerRunner | None = None
        self._watches: set[Watch] = set()
        self._memory = FreedMemory()

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> int:
        server = web.Server(self._serve, request_factory=_bounded_request, handler_cancellation=True, access_log=None)
        self._runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=1)
        await self._runner.setup()
        await listen(self._runner, host, port, tls=tls)
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        for watch in list(self._watches):
            watch.stop()
        self._memory.stop()
        await self._nodes.stop()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _serve(self, http: web.BaseRequest) -> web.StreamResponse:
        try:
            result = await self._api.handle(await self._request(http))
            if isinstance(result, NodeStream):
                return await self._nodes.serve(http, result.call)
        except status.ApiError as error:
            result = Response(error.code, error.body(), headers=error.headers)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as error:
            _log.exception("%s %s failed", http.method, http.path)
            result = Response(500, status.internal(f"{type(error).__name__}: {error}").body())
        if isinstance(result, Watch):
            return await self._stream(http, result)
        headers = {"Content-Type": result.content_type, "Cache-Control": "no-cache, private", **result.headers}
        self._memory.handled((http.content_length or 0) + len(result.body))
        response = web.Response(status=result.code, body=result.body, headers=headers)
        for warning in result.warnings:
            escaped = warning.replace("\\", "\\\\").replace('"', '\\"')
            response.headers.add("Warning", f'299 - "{escaped}"')
        return response

    async def _request(self, http: web.BaseRequest) -> Request:
        path, _, query = http.path_qs.partition("?")
        user = self._authenticate(http)
        strange = user is ANONYMOUS  # who may write nothing: what is sent is not even read
        body = await self._read(http) if http.can_read_body and not strange else b""
        headers = http.headers
        return Request(
            http.method,
            path,
            parse_query(query),
            body,
            headers.get("Content-Type", JSON),
            headers.get("Accept", JSON),
            user,
            headers.get("User-Agent", "").encode(errors="surrogateescape").decode(errors="replace"),
        )

    async def _read(self, http: web.BaseRequest) -> bytes:
        try:
            if http.content.is_eof():  # the whole body is here already, as nearly always
                return await http.read()
            async with asyncio.timeout(BODY_SECONDS):
                return await http.read()
        except TimeoutError:
            text = "Timeout: request did not complete within the allotted timeout"
            raise status.ApiError(504, "Timeout", text, {}) from None
        except web.HTTPRequestEntityTooLarge:
            raise status.too_large() from None
        except web.RequestPayloadError as error:
            raise status.bad_request(f"the body of the request cannot be read: {error}") from None

    def _authenticate(self, http: web.BaseRequest) -> User:
        header = http.headers.get("Authorization", "")
        if not header:
            return _certified(http)
        scheme, _, token = header.partition(" ")
        user = self._api.tokens.user(token.strip()) if scheme.lower() == "bearer" else None
        if user is None:
            raise status.unauthorized()
        proved(http)
        return user

    async def _stream(self, http: web.BaseRequest, watch: Watch) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
        )
        response.enable_chunked_encoding()
        await response.prepare(http)
        transport = http.transport
        if transport is None:
            return response

        def out(chunk: bytes) -> None:
            if transport.is_closing():  # the client is gone; there is no other notice
                watch.stop()
                return
            # Straight to the transport: a commit reaches every watch within one turn of the loop, and no task is woken.
            transport.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            if transport.get_write_buffer_size() > _SLOW_WATCH_BYTES:
                transport.abort()
                watch.stop()

        self._watches.add(watch)
        try:
            watch.start(out)
            await watch.closed
        finally:
            self._watches.discard(watch)
            watch.stop()
        return response


def _certified(http: web.BaseRequest) -> User:
    """The user of a client certificate that the cluster's authority signed."""
    certificate = http.get_extra_info("peercert")
    if not certificate:
        return ANONYMOUS
    subject = [(name, value) for part in certificate.get("subject", ()) for name, value in part]
    groups = tuple(value for name, value in subject if name == "organizationName")
    name = next((value for key, value in subject if key == "commonName"), "")
    return User(name, (*groups, "system:authenticated")) if name else ANONYMOUS
