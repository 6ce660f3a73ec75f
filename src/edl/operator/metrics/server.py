"""Serves /metrics over TLS to whoever the cluster allows to read them: they name every job of every namespace.

The API server says who a bearer token is (TokenReview) and whether that account may get /metrics
(SubjectAccessReview), as for Kubernetes' own components. Its word counts for a minute.
"""

import hmac
import logging
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from edl.kube.rest.access_reviews import Access, Reviews
from edl.kube.rest.client import Client
from edl.kube.rest.errors import KubeError
from edl.operator.settings import METRICS_PATH as PATH
from edl.serving.http import proved, serve_app

log = logging.getLogger(__name__)


class MetricsServer:
    """`read` makes the page. `address` is where it listens. `own_token` opens it without asking the API server."""

    def __init__(
        self,
        client: Client,
        read: Callable[[], bytes],
        *,
        address: tuple[str, int],
        tls: ssl.SSLContext,
        own_token: Callable[[], str] = lambda: "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read, self._address, self._tls, self._own_token = read, address, tls, own_token
        self._reviews = Reviews(client, clock=clock)
        self.port = 0

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        app = web.Application(client_max_size=1024)
        app.router.add_get(PATH, self._serve)
        runner = await serve_app(app, *self._address, tls=self._tls)
        try:
            self.port = runner.addresses[0][1]
            log.info("metrics are served on port %d", self.port)
            yield
        finally:
            await runner.cleanup()

    async def _serve(self, request: web.Request) -> web.Response:
        status = 200
        if not self._is_own(request.headers.get("EDL-Token", "")):
            status = await self._status_for(request.headers.get("Authorization", ""))
        if status != 200:
            why = {401: "wants a bearer token of the cluster", 403: f"this account may not get {PATH}"}
            return web.Response(status=status, text=f"{why.get(status, 'the API server does not answer')}\n")
        proved(request)
        return web.Response(body=self._read(), content_type="text/plain", charset="utf-8")

    def _is_own(self, token: str) -> bool:
        """The API server's proxy keeps a bearer token for itself, so this one has a header of its own."""
        own = self._own_token()
        return bool(own) and hmac.compare_digest(token.encode(errors="replace"), own.encode())

    async def _status_for(self, authorization: str) -> int:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.isascii() or not token:
            return 401
        try:
            who = await self._reviews.identify(token)
            if who is None:
                return 401
            return 200 if await self._reviews.of(who).may(Access("get", path=PATH)) else 403
        except KubeError as error:
            log.warning("nobody can be let see metrics: %s", error)
            return 503
