"""A small API server whose every answer a test can replace: the truth, its history, and the faults on the way to us.

`handle` is what a DirectTransport calls; `serving` puts the same thing behind a real HTTP port. It knows lists in pages
of one snapshot, watches with history, 410 for what is compacted, optimistic locking and preconditions; no schemas.
"""

import asyncio
import itertools
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import msgspec
from aiohttp import web

from edl.kube.auth.credentials import Auth, ClientConfig
from edl.kube.rest.errors import ConnectionLostError
from edl.kube.rest.transport import Request, Response

Body = dict[str, Any]
Answer = Callable[[Request], Awaitable[Response]]


def status(code: int, reason: str = "", message: str = "", **details: Any) -> Body:
    body: Body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    return {**body, "message": message or reason, "metadata": {}, "details": details}


def reply(body: Body, code: int = 200, **headers: str) -> Response:
    named = {name.replace("_", "-").title(): value for name, value in headers.items()}
    return Response(code, msgspec.json.encode(body), named)


def refuse(code: int, reason: str = "", **headers: str) -> Response:
    return reply(status(code, reason), code, **headers)


def line(kind: str, item: Body) -> bytes:
    return msgspec.json.encode({"type": kind, "object": item}) + b"\n"


def answering(*answers: Response | Exception) -> list[Answer]:
    """Answers that are the same whatever was asked."""

    def fixed(answer: Response | Exception) -> Answer:
        async def give(request: Request) -> Response:
            if isinstance(answer, Exception):
                raise answer
            return answer

        return give

    return [fixed(answer) for answer in answers]


def streaming(*chunks: bytes, then_silence: bool = False, broken: bool = False) -> Answer:
    """A watch that says exactly this, and then ends, breaks, or says nothing more."""

    async def give(request: Request) -> Response:
        async def said() -> AsyncIterator[bytes]:
            for chunk in chunks:
                yield chunk
            if then_silence:
                await asyncio.Event().wait()
            if broken:
                raise ConnectionLostError("the connection broke")

        return Response(200, chunks=said())

    return give


class FakeApi:
    def __init__(self, *, version: int = 100) -> None:
        self.version = version
        self.compacted = version
        self.objects: dict[str, dict[tuple[str, str], Body]] = {}
        self.history: list[tuple[int, str, str, Body]] = []
        self.requests: list[Request] = []
        self.next_lists: deque[Answer] = deque()
        self.next_watches: deque[Answer] = deque()
        self.next_writes: deque[Answer] = deque()
        self._queues: dict[asyncio.Queue[bytes | None], str] = {}
        self._down = False
        self._uids = itertools.count(1)
        self._snapshots: dict[str, list[Body]] = {}

    # The truth, changed behind everybody's back.

    def put(self, plural: str, name: str, namespace: str = "default", *, uid: str = "", **fields: Any) -> Body:
        known = self.objects.setdefault(plural, {}).get((namespace, name))
        self.version += 1
        metadata = dict(
            (known or {}).get("metadata", {"name": name, "namespace": namespace, "uid": f"u{next(self._uids)}"})
        )
        metadata.update(fields.pop("metadata", {}), resourceVersion=str(self.version))
        if uid:
            metadata["uid"] = uid
        item = {**(known or {}), **fields, "metadata": metadata}
        self.objects[plural][namespace, name] = item
        self._happened(plural, "MODIFIED" if known else "ADDED", item)
        return item

    def remove(self, plural: str, name: str, namespace: str = "default") -> None:
        item = self.objects[plural].pop((namespace, name))
        self.version += 1
        gone = {**item, "metadata": {**item["metadata"], "resourceVersion": str(self.version)}}
        self._happened(plural, "DELETED", gone)

    def compact(self) -> None:
        """Forgets the history: whoever is behind gets 410."""
        self.compacted = self.version
        self.history.clear()
        self._snapshots.clear()

    def hang_up(self) -> None:
        for queue in self._queues:
            queue.put_nowait(None)

    @contextmanager
    def gap(self) -> Iterator[None]:
        """Nobody hears of what happens meanwhile: watches have ended, connections are refused."""
        self.hang_up()
        self._queues.clear()
        self._down = True
        yield
        self._down = False

    def say(self, data: bytes) -> None:
        """Something only the watchers hear."""
        for queue in self._queues:
            queue.put_nowait(data)

    def bookmark(self, version: int | None = None) -> bytes:
        return line("BOOKMARK", {"metadata": {"resourceVersion": str(version or self.version)}})

    def asked(self, *, watch: bool) -> list[Request]:
        return [one for one in self.requests if one.method == "GET" and ("watch" in one.query) == watch]

    def _happened(self, plural: str, kind: str, item: Body) -> None:
        self.history.append((self.version, plural, kind, item))
        for queue, wanted in self._queues.items():
            if wanted == plural:
                queue.put_nowait(line(kind, item))

    # The way to it.

    async def handle(self, request: Request) -> Response:
        self.requests.append(request)
        if self._down:
            raise ConnectionLostError("connection refused", sent=False)
        plural, namespace, name = _parse(request.path)
        if request.method != "GET":
            return await (self.next_writes.popleft() if self.next_writes else self._write)(request)
        if "watch" in request.query:
            return await (self.next_watches.popleft() if self.next_watches else self._watch)(request)
        if not name:
            return await (self.next_lists.popleft() if self.next_lists else self._list)(request)
        item = self.objects.get(plural, {}).get((namespace, name))
        return reply(item) if item else refuse(404, "NotFound")

    async def _list(self, request: Request) -> Response:
        plural, namespace, _ = _parse(request.path)
        version, start = str(self.version), 0
        if "continue" in request.query:
            version, _, at = request.query["continue"].partition("/")
            start = int(at)
            if version not in self._snapshots:
                return refuse(410, "Expired")
        else:
            known = self.objects.get(plural, {})
            self._snapshots[version] = [known[key] for key in sorted(known) if not namespace or key[0] == namespace]
        everything = self._snapshots[version]
        limit = int(request.query.get("limit", len(everything) or 1))
        metadata: Body = {"resourceVersion": version}
        if start + limit < len(everything):
            metadata |= {
                "continue": f"{version}/{start + limit}",
                "remainingItemCount": len(everything) - start - limit,
            }
        return reply({"kind": "List", "metadata": metadata, "items": everything[start : start + limit]})

    async def _watch(self, request: Request) -> Response:
        plural, _, _ = _parse(request.path)
        since = int(request.query["resourceVersion"])
        if since < self.compacted:
            return await streaming(line("ERROR", status(410, "Expired", "too old resource version")))(request)
        if since > self.version:
            return refuse(504, "Timeout")
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        for version, kin, kind, item in self.history:
            if kin == plural and version > since:
                queue.put_nowait(line(kind, item))
        self._queues[queue] = plural
        return Response(200, chunks=self._live(queue))

    async def _live(self, queue: "asyncio.Queue[bytes | None]") -> AsyncIterator[bytes]:
        try:
            while (data := await queue.get()) is not None:
                yield data
        finally:
            self._queues.pop(queue, None)

    async def _write(self, request: Request) -> Response:
        plural, namespace, name = _parse(request.path)
        body: Body = msgspec.json.decode(request.body or b"{}")
        name = name or body["metadata"]["name"]
        known = self.objects.get(plural, {}).get((namespace, name))
        if request.method == "POST":
            return refuse(409, "AlreadyExists") if known else reply(self.put(plural, name, namespace, **body), 201)
        if known is None:
            return refuse(404, "NotFound")
        wanted = body.get("preconditions", {}) if request.method == "DELETE" else body.get("metadata", {})
        for field in ("uid", "resourceVersion"):
            if wanted.get(field, known["metadata"][field]) != known["metadata"][field]:
                return refuse(409, "Conflict")
        if request.method == "DELETE":
            self.remove(plural, name, namespace)
            return reply({**status(200), "status": "Success"})
        return reply(self.put(plural, name, namespace, **body))


def _parse(path: str) -> tuple[str, str, str]:
    """(plural, namespace, name) of a path; subresources are written to the object itself."""
    parts = path.split("/")[3 if path.startswith("/api/") else 4 :]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    return parts[0], namespace, parts[1] if len(parts) > 1 else ""


def anybody(server: str, *tokens: str) -> ClientConfig:
    """For a server that asks for no credentials, or whose `tokens` change."""
    left = list(tokens)

    async def login(refused: Auth | None) -> Auth:
        if refused is not None and len(left) > 1:
            left.pop(0)
        return Auth({"Authorization": f"Bearer {left[0]}"} if left else {})

    return ClientConfig(server, login)


class HangUp(Exception):  # noqa: N818 - an instruction, not an error
    """Raised by an answer to make the HTTP server break the connection without a word."""


@asynccontextmanager
async def serving(
    answer: Answer, *, check: Callable[[Mapping[str, str]], bool] = lambda headers: True, port: int = 0
) -> AsyncIterator[str]:
    """The URL of an HTTP server on loopback that gives these answers."""

    async def on_request(incoming: web.Request) -> web.StreamResponse:
        if not check(incoming.headers):
            return web.json_response(status(401, "Unauthorized"), status=401)
        content_type = incoming.headers.get("Content-Type", "")
        body = await incoming.read()
        try:
            given = await answer(Request(incoming.method, incoming.path, dict(incoming.query), body, content_type))
            return await _send(incoming, given)
        except (HangUp, ConnectionLostError):
            assert incoming.transport is not None
            incoming.transport.abort()
            raise

    app = web.Application(client_max_size=2**26)
    app.router.add_route("*", "/{path:.*}", on_request)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def _send(incoming: web.Request, given: Response) -> web.StreamResponse:
    if given.chunks is None:
        return web.Response(status=given.code, body=given.body, headers=given.headers, content_type="application/json")
    response = web.StreamResponse(status=given.code, headers=given.headers)
    await response.prepare(incoming)
    try:
        async for chunk in given.chunks:
            await response.write(chunk)
    except ConnectionResetError:  # the client left
        pass
    finally:
        await given.chunks.aclose()  # type: ignore[attr-defined]  # every stream here is a generator
    return response
