"""The HTTP face of the API server: aiohttp in front of `Api`. Authentication, limits and the wire are here, decisions
are not."""

from __future__ import annotations

import asyncio
import hmac
import logging
import ssl
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from edl.embedded.server import status
from edl.embedded.server.api import Api, Request
from edl.embedded.server.call import ANONYMOUS, JSON, Answer, User, parse_query
from edl.embedded.server.watch import Watch

BODY_LIMIT = 3 << 20
_SLOW_WATCH_BYTES = 64 << 20
_log = logging.getLogger(__name__)


def _bounded_request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
    return web.BaseRequest(
        message, payload, protocol, writer, task, asyncio.get_running_loop(), client_max_size=BODY_LIMIT
    )


class Front:
    """One listening socket. `tokens` maps bearer tokens to users."""

    def __init__(self, api: Api, *, tokens: Mapping[str, User]) -> None:
        self._api = api
        self._tokens = dict(tokens)
        self._runner: web.ServerRunner | None = None
        self._watches: set[Watch] = set()

    async def start(self, host: str, port: int, tls: ssl.SSLContext | None) -> int:
        server = web.Server(self._serve, request_factory=_bounded_request)
        self._runner = web.ServerRunner(server, handle_signals=False, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, ssl_context=tls, backlog=1024)
        await site.start()
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        for watch in list(self._watches):
            watch.stop()
        if self._runner is not None:
            await self._runner.shutdown()
            await self._runner.cleanup()

    async def _serve(self, http: web.BaseRequest) -> web.StreamResponse:
        try:
            answer = await self._api.handle(await self._request(http))
        except status.ApiError as error:
            answer = Answer(error.code, error.body(), headers=error.headers)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as error:
            _log.exception("%s %s failed", http.method, http.path)
            problem = status.internal(f"{type(error).__name__}: {error}")
            answer = Answer(500, problem.body())
        if isinstance(answer, Watch):
            return await self._stream(http, answer)
        headers = {"Content-Type": answer.content_type, "Cache-Control": "no-cache, private", **answer.headers}
        response = web.Response(status=answer.code, body=answer.body, headers=headers)
        for warning in answer.warnings:
            response.headers.add("Warning", f'299 - "{warning}"')
        return response

    async def _request(self, http: web.BaseRequest) -> Request:
        path, _, query = http.path_qs.partition("?")
        user = self._authenticate(http)
        body = await self._read(http) if http.can_read_body else b""
        headers = http.headers
        return Request(
            http.method,
            path,
            parse_query(query),
            body,
            headers.get("Content-Type", JSON),
            headers.get("Accept", JSON),
            user,
            headers.get("User-Agent", ""),
        )

    async def _read(self, http: web.BaseRequest) -> bytes:
        try:
            return await http.read()
        except web.HTTPRequestEntityTooLarge:
            raise status.too_large() from None

    def _authenticate(self, http: web.BaseRequest) -> User:
        header = http.headers.get("Authorization", "")
        if not header:
            return ANONYMOUS
        scheme, _, token = header.partition(" ")
        if scheme.lower() == "bearer":
            for known, user in self._tokens.items():
                if hmac.compare_digest(known.encode(), token.strip().encode()):
                    return user
        raise status.unauthorized()

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
            # Straight to the transport: a commit fans out to every watch in one turn of the loop, without waking a
            # task for each.
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
