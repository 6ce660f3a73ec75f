"""A way from a browser on this machine to the page of a cluster: through its API server, with the user's kubeconfig.

Calls go to one Service alone, by the API server's proxy; whatever a path says, it leads nowhere else. Who looks is
decided there, by the session or token that the browser sends, as if there were no tunnel: the API server keeps the
user's own credential for itself. Calls that another site made a browser send end here.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import unquote

import msgspec
from aiohttp import web

from edl.kube.auth.credentials import ClientConfig
from edl.kube.rest.errors import ApiError, KubeError
from edl.kube.rest.transport import HttpTransport, Request, Response
from edl.serving.http import proved, serve_app
from edl.web.access.origin import LOOPBACK, OURS, check_origin
from edl.web.access.viewers import TOKEN_HEADER
from edl.web.errors import RefusedError, not_found
from edl.web.static import HEADERS
from edl.web.types import Code, Refusal

SERVICE, PORT = "edl-web", 443
API = "/api/"
SENT = (TOKEN_HEADER, OURS, "If-None-Match")
RETURNED = ("Content-Type", "Content-Encoding", "ETag", "Cache-Control", "Vary", "X-Accel-Buffering")
BODY = 64 << 10
PATIENCE = 20.0  # seconds for one call of ours


class NoPageError(Exception):
    """The cluster has no page, or none that this user may get to; the text says which."""


class Tunnel:
    """`namespace` is that of the installation."""

    def __init__(self, config: ClientConfig, namespace: str) -> None:
        self._config, self._namespace = config, namespace
        self._transport = HttpTransport(config, user_agent="edl-ui")
        self._base = f"/api/v1/namespaces/{namespace}/services/https:{SERVICE}:{PORT}/proxy"

    async def close(self) -> None:
        await self._transport.close()

    async def check(self) -> None:
        """NoPageError says what is missing; KubeError: the API server does not answer."""
        self._check(await self._ask(Request("GET", f"{self._base}/healthz")))

    async def get(self, path: str, query: Mapping[str, str], *, within: float = PATIENCE) -> bytes:
        """What the page answers to a call of the user's. NoPageError says why it does not."""
        headers = {TOKEN_HEADER: await self.own_token()}
        request = Request("GET", self._base + safe_path(path), query=query, accept="*/*", headers=headers)
        answer = await self._ask(request, within)
        self._check(answer)
        return bytes(answer.body)

    def _check(self, answer: Response) -> None:
        where = f"{SERVICE} in namespace {self._namespace}"
        if answer.code == 200:
            return
        if refusal := _refusal(answer):
            raise NoPageError(f"the page of the cluster refuses: {refusal}")
        if answer.code in (401, 403):
            raise NoPageError(f"you may not get services/proxy of {where}; its Role {SERVICE} grants it")
        if answer.code == 404:
            raise NoPageError(f"there is no Service {where}; `edl install --web` brings it")
        raise NoPageError(f"{where} does not answer: {_words(answer)}")

    async def _ask(self, request: Request, within: float = PATIENCE) -> Response:
        try:
            async with asyncio.timeout(within):
                return await self._transport.request(request)
        except TimeoutError:
            raise NoPageError(f"{SERVICE} in namespace {self._namespace} does not answer") from None

    async def token(self) -> str:
        """The user's bearer token, empty if the kubeconfig has none or acts for somebody else."""
        headers = (await self._config.login(None)).headers
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        acts_as = any(name.lower().startswith("impersonate-") for name in headers)
        return token if scheme.lower() == "bearer" and not acts_as else ""

    async def own_token(self) -> str:
        """The same; NoPageError if there is none."""
        token = await self.token()
        if not token:
            raise NoPageError("your kubeconfig has no token of your own for the page of the cluster")
        return token

    async def code(self, *, actions: bool) -> str:
        """A code that logs the user in, once. NoPageError if the page does not take their token."""
        headers = {TOKEN_HEADER: await self.token(), OURS: "1"}
        query = {"actions": "1"} if actions else {}
        answer = await self._ask(Request("POST", f"{self._base}/api/v1/codes", query=query, headers=headers))
        if answer.code != 200:
            raise NoPageError(f"the page does not let you in: {_words(answer)}")
        return msgspec.json.decode(answer.body, type=Code).code

    @asynccontextmanager
    async def serving(self, host: str, port: int) -> AsyncIterator[str]:
        """Listens on loopback; gives the address."""
        app = web.Application(client_max_size=BODY)
        app.router.add_route("*", "/{path:.*}", self._pass_on)
        runner = await serve_app(app, host, port)
        try:
            yield f"http://{f'[{host}]' if ':' in host else host}:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        try:
            check_origin(request, LOOPBACK)
            path = safe_path(request.raw_path.partition("?")[0])
            body = await request.read()
            asked = Request(
                request.method,
                self._base + path,
                query=dict(request.query),
                body=body or None,
                content_type=request.content_type,
                accept="*/*",
                headers={name: request.headers[name] for name in SENT if name in request.headers},
            )
            async with self._transport.stream(asked) as answer:
                if path.startswith(API) and answer.code == 200:
                    proved(request)  # the page has checked who calls
                return await _answered(request, answer)
        except RefusedError as error:
            return _refused(error.status, str(error), error.code)
        except ApiError as error:
            return _refused(502, error.status.message, "unavailable")
        except KubeError as error:
            return _refused(503, f"the API server does not answer: {error}", "unavailable")
        except (ConnectionResetError, ConnectionAbortedError):
            return web.Response()  # the browser went away


def safe_path(path: str) -> str:
    """As it is, if it stays below the Service; RefusedError else. What is encoded twice is decoded by nobody."""
    for part in path.split("/"):
        plain = unquote(part)
        if plain in (".", "..") or "/" in plain or "\\" in plain or not plain.isprintable():
            raise not_found("such path")
    return path


async def _answered(request: web.Request, answer: Response) -> web.StreamResponse:
    told = {name: answer.headers[name] for name in RETURNED if name in answer.headers}
    response = web.StreamResponse(status=answer.code, headers={**HEADERS, **told})
    await response.prepare(request)
    assert answer.chunks is not None, "it was asked for as a stream"
    async for chunk in answer.chunks:
        await response.write(chunk)
    return response


def _refused(status: int, words: str, code: str) -> web.Response:
    body = msgspec.json.encode(Refusal(error=words, code=code))
    return web.Response(body=body, status=status, content_type="application/json", headers=HEADERS)


def _refusal(answer: Response) -> str:
    """The page's own, empty if somebody before it refuses."""
    said = _said(answer)
    return str(said.get("error") or "")[:300] if "code" in said and "kind" not in said else ""


def _words(answer: Response) -> str:
    """Of the page's refusals, and of the API server's."""
    said = _said(answer)
    return f"{answer.code} {str(said.get('error') or said.get('message') or '')[:300]}".strip()


def _said(answer: Response) -> dict[str, object]:
    try:
        return msgspec.json.decode(bytes(answer.body), type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
