"""The server of the page: routes, refusals, headers. Reads what `model` knows for whom `access` lets in.

Read-only unless actions are switched on. A call that changes anything needs a header that only our own page sends, and
must come from our own origin.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import TypeVar

import msgspec
from aiohttp import web

import edl
from edl.jobs.core.kind import JobKind
from edl.jobs.registry import JOB_KIND_BY_CRD
from edl.kube.rest.access_reviews import Access
from edl.kube.rest.errors import ApiError, KubeError
from edl.operator.reconcile.job_key import JobKey
from edl.scheduler.policies.registry import POLICIES
from edl.scheduler.settings import Settings
from edl.serving.http import HttpLimits, proved, serve_app
from edl.web import actions
from edl.web.access.origin import check_origin
from edl.web.access.sessions import CODE_SECONDS, SESSION, Grant, Sessions
from edl.web.access.viewers import TOKEN_HEADER, Door, Viewer, Viewers
from edl.web.errors import RefusedError, forbidden, not_found
from edl.web.kept_logs import KeptLogCalls
from edl.web.logs import pod_log
from edl.web.lookups import events_of, kept_manifest, manifest_of, refused
from edl.web.model.history import History, NoHistory
from edl.web.model.plans import Planner
from edl.web.model.recorded import Recording
from edl.web.model.rows import job_key, mapping, text
from edl.web.model.state import ClusterState
from edl.web.openapi import document
from edl.web.progress import LiveProgress, ReadProgress
from edl.web.static import HEADERS, Pages
from edl.web.stream import ClusterFeed, Feed, JobFeed, JobsFeed, Streams, Views
from edl.web.types import (
    Code,
    Done,
    Events,
    JobRow,
    Login,
    LoginDone,
    LogLines,
    PauseWanted,
    Refusal,
    SessionInfo,
    SizeWanted,
)

log = logging.getLogger(__name__)

T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
BODY = 64 << 10
TAIL = 5000  # lines of a log that may be asked for
LIMITS = HttpLimits(connections=4000)


class WebSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`hosts`: names under which the page may be asked for, so that no foreign name can be pointed at it; None: any.
    `scheduler` is for plans."""

    actions: bool = False
    hosts: tuple[str, ...] | None = None
    scheduler: Settings = Settings()


class WebServer:
    def __init__(
        self,
        state: ClusterState,
        door: Door,
        settings: WebSettings,
        *,
        history: History | None = None,
        progress: ReadProgress | None = None,
        sessions: Sessions | None = None,
        wake: Callable[[], Awaitable[None]] | None = None,
        recording: Recording | None = None,
    ) -> None:
        """`wake` is awaited before every call that reads the state: it may begin to fill the caches only then.
        `recording` is shown in place of a cluster."""
        self._recording = recording
        self._state, self._settings, self._wake = state, settings, wake
        self._sessions = Sessions() if sessions is None else sessions  # an empty one counts
        self._viewers = Viewers(door, self._sessions, state.jobs.namespaces)
        self.progress = LiveProgress(state, progress)
        kept = recording or history or NoHistory()
        self._views = Views(state, kept, self.progress, recording)
        self._kept_logs = KeptLogCalls(self._views, self._viewers, kept)
        self._streams = Streams(self._views, self._viewers)
        self._planner = Planner(state, settings.scheduler)
        self._pages = Pages()
        self._document = msgspec.json.encode(document())

    def app(self) -> web.Application:
        app = web.Application(client_max_size=BODY, middlewares=[self._guard])
        app.on_response_prepare.append(_add_headers)
        job = "/api/v1/jobs/{kind}/{namespace}/{name}"
        app.add_routes(self._pages.routes())
        app.add_routes(self._kept_logs.routes(job))
        app.add_routes(
            [
                web.get("/healthz", self._health),
                web.get("/readyz", self._ready),
                web.get("/openapi.json", self._openapi),
                web.get("/api/v1/session", self._session),
                web.post("/api/v1/login", self._login),
                web.post("/api/v1/logout", self._logout),
                web.post("/api/v1/codes", self._code),
                web.get("/api/v1/jobs", self._jobs),
                web.get("/api/v1/past", self._past),
                web.get("/api/v1/cluster", self._cluster),
                web.get("/api/v1/plan", self._plan),
                web.get("/api/v1/stream", self._stream, allow_head=False),
                web.get(job, self._job),
                web.delete(job, self._delete),
                web.get(f"{job}/events", self._events),
                web.get(f"{job}/manifest", self._manifest),
                web.get(f"{job}/pods/{{pod}}/log", self._log, allow_head=False),
                web.post(f"{job}/size", self._size),
                web.post(f"{job}/pause", self._pause),
            ]
        )
        return app

    async def serve(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> web.AppRunner:
        """Listens until the runner's `cleanup()`; `runner.addresses` says where."""
        return await serve_app(self.app(), host, port, tls=tls, limits=LIMITS)

    # Who asks, and from where.

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            check_origin(request, self._settings.hosts)
            if self._wake is not None and request.path.startswith("/api/"):
                await self._wake()
            return await handler(request)
        except RefusedError as error:
            return _answer(Refusal(error=str(error), code=error.code), error.status)
        except web.HTTPRequestEntityTooLarge:
            return _answer(Refusal(error=f"a body has at most {BODY} bytes", code="bad-request"), 413)
        except web.HTTPException as error:
            return _answer(Refusal(error=error.reason, code="not-found"), error.status)
        except ApiError as error:
            asked = refused(error, "that")
            return _answer(Refusal(error=str(asked), code=asked.code), asked.status)
        except KubeError as error:
            return _answer(Refusal(error=f"the API server does not answer: {error}", code="unavailable"), 503)
        except (asyncio.CancelledError, ConnectionResetError):
            raise
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            return _answer(Refusal(error="the server failed on this call; its log says how", code="internal"), 500)

    # Sessions.

    async def _session(self, request: web.Request) -> web.Response:
        viewer = await self._viewers.of(request)
        return _answer(
            SessionInfo(
                user=viewer.name,
                version=edl.__version__,
                cluster=viewer.visibility.cluster,
                namespaces=viewer.visibility.namespaces,
                actions=self._settings.actions and viewer.acts,
                recorded=self._recording.about if self._recording is not None else "",
            )
        )

    async def _login(self, request: web.Request) -> web.Response:
        asked = _decode(await request.read(), Login)
        grant = self._sessions.redeem(asked.code) if asked.code else Grant(asked.token.strip(), acts=True)
        if grant is None:
            raise RefusedError(401, "unauthorized", "the code was used or is too old; `edl ui` makes a new one")
        if not grant.token or not grant.token.isascii() or not grant.token.isprintable():
            raise RefusedError(401, "unauthorized", "that is no token")
        await self._viewers.by_grant(grant)
        proved(request)
        return _answer(LoginDone(session=self._sessions.begin(grant)))

    async def _logout(self, request: web.Request) -> web.Response:
        given = request.headers.get(TOKEN_HEADER, "")
        if given.startswith(SESSION):
            self._sessions.end(given)
        return _answer(Done(message="logged out"))

    async def _code(self, request: web.Request) -> web.Response:
        viewer = await self._viewers.of(request)
        grant = Grant(viewer.token, acts=viewer.acts and request.query.get("actions") == "1")
        return _answer(Code(code=self._sessions.code(grant), seconds=CODE_SECONDS))

    # Reading.

    async def _health(self, request: web.Request) -> web.Response:
        return _answer(Done(message="ok"))

    async def _ready(self, request: web.Request) -> web.Response:
        if not self._state.synced:
            raise RefusedError(503, "unavailable", "the caches are not filled yet")
        return _answer(Done(message="ok"))

    async def _openapi(self, request: web.Request) -> web.Response:
        return web.Response(body=self._document, content_type="application/json")

    async def _jobs(self, request: web.Request) -> web.Response:
        viewer = await self._viewers.of(request)
        message = self._state.jobs.message(None, viewer.visibility.sees)
        return web.Response(body=message, content_type="application/json")

    async def _past(self, request: web.Request) -> web.Response:
        return _answer(await self._views.past(await self._viewers.of(request)))

    async def _cluster(self, request: web.Request) -> web.Response:
        viewer = await self._viewers.of(request)
        return web.Response(body=await self._views.cluster(viewer), content_type="application/json")

    async def _plan(self, request: web.Request) -> web.Response:
        viewer = await self._viewers.of(request)
        if not viewer.visibility.cluster:
            raise forbidden("plans are for those who may list nodes, pods and jobs in all namespaces")
        if self._recording is not None:
            raise not_found("plan: this is a recording")
        policy = request.query.get("policy", self._planner.policy)
        if policy not in POLICIES:
            raise RefusedError(400, "bad-request", f"there is no policy {policy[:40]!r}; known: {', '.join(POLICIES)}")
        return _answer(await self._planner.view(policy))

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        viewer = await self._viewers.of(request)
        return await self._streams.serve(request, viewer, self._feed(request.query))

    def _feed(self, wanted: Mapping[str, str]) -> Feed:
        match wanted.get("view"):
            case "jobs":
                return JobsFeed(self._state)
            case "cluster":
                return ClusterFeed(self._views)
            case "job":
                parts = wanted.get("job", "").split("/")
                if len(parts) == 3:
                    return JobFeed(self._views, JobKey(*parts))
        raise RefusedError(400, "bad-request", "view is jobs, cluster, or job with job=KIND/NAMESPACE/NAME")

    # One job.

    async def _job(self, request: web.Request) -> web.Response:
        viewer = await self._viewers.of(request)
        return _answer(await self._views.job(viewer, _key(request)))

    async def _found(self, request: web.Request) -> tuple[Viewer, JobKey, JobKind]:
        """The viewer and the job, if it is one that they see."""
        viewer, key = await self._viewers.of(request), _key(request)
        kind = JOB_KIND_BY_CRD.get(key.kind)
        if kind is None or not viewer.visibility.sees(key.kind, key.namespace) or self._row(key) is None:
            raise not_found(f"job {key.namespace[:80]}/{key.name[:80]}")
        return viewer, key, kind

    def _row(self, key: JobKey) -> JobRow | None:
        return self._state.jobs.get(job_key(*key))

    async def _events(self, request: web.Request) -> web.Response:
        viewer, key = await self._viewers.of(request), _key(request)
        kept, row = await self._views.kept(viewer, key), self._row(key)
        if row is None:
            return _answer(Events(events=kept.events, missing=[]))
        pods = self._state.caches.pods_of(key, row.uid)
        troubled = [pod.metadata.name for pod in pods if pod.status.phase != "Running" or pod.restarts]
        return _answer(await events_of(viewer.client, key.namespace, [key.name, *troubled]))

    async def _manifest(self, request: web.Request) -> web.Response:
        viewer, key = await self._viewers.of(request), _key(request)
        kept = await self._views.kept(viewer, key)
        if self._row(key) is None and kept.manifest:
            return _answer(kept_manifest(kept.manifest))
        return _answer(await manifest_of(viewer.client, JOB_KIND_BY_CRD[key.kind], key.namespace, key.name))

    async def _log(self, request: web.Request) -> web.StreamResponse:
        viewer, key, _ = await self._found(request)
        row, pod = self._row(key), request.match_info["pod"]
        known = {one.metadata.name for one in self._state.caches.pods_of(key, row.uid if row is not None else "")}
        if pod not in known:
            raise not_found(f"pod {pod[:80]} of this job")
        if not await viewer.rights.may(Access("get", "", "pods", key.namespace, "log")):
            raise forbidden("you may not read logs in this namespace (get pods/log)")
        tail = request.query.get("tail", "500")
        if not tail.isdecimal() or not 0 < int(tail) <= TAIL:
            raise RefusedError(400, "bad-request", f"tail is a number from 1 to {TAIL}")
        follow, previous = (request.query.get(name) == "1" for name in ("follow", "previous"))
        lines = pod_log(viewer.client, key.namespace, pod, tail=int(tail), follow=follow, previous=previous)
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson", "X-Accel-Buffering": "no"})
        try:
            async with aclosing(lines):
                async for batch in lines:
                    if not response.prepared:
                        await response.prepare(request)
                    await response.write(msgspec.json.encode(batch) + b"\n")
        except KubeError as error:
            if not response.prepared:
                raise
            await response.write(msgspec.json.encode(LogLines(lines=[], end=text(str(error), 300))) + b"\n")
        except (ConnectionResetError, ConnectionAbortedError):
            pass  # the page was closed
        return response

    # Changing one.

    async def _acting(self, request: web.Request) -> tuple[Viewer, JobRow, JobKind]:
        if not self._settings.actions:
            raise RefusedError(403, "read-only", "this page only shows; it was started without --actions")
        viewer, key, kind = await self._found(request)
        if not viewer.acts:
            raise RefusedError(403, "read-only", "this session only looks; `edl ui --actions` begins one that may act")
        row = self._row(key)
        assert row is not None, "it was found"
        log.info("%s: %s %s", viewer.name, request.method, request.path)
        return viewer, row, kind

    async def _size(self, request: web.Request) -> web.Response:
        viewer, row, kind = await self._acting(request)
        wanted = _decode(await request.read(), SizeWanted)
        return _answer(await actions.set_size(viewer.client, kind, row, wanted.size))

    async def _pause(self, request: web.Request) -> web.Response:
        viewer, row, kind = await self._acting(request)
        wanted = _decode(await request.read(), PauseWanted)
        raw = self._state.caches.jobs[row.kind].get((row.namespace, row.name))
        status = mapping(raw.status) if raw is not None else {}
        held = bool(mapping(status.get(kind.scale_field)).get("hold"))
        return _answer(await actions.set_pause(viewer.client, kind, row, wanted.paused, held=held))

    async def _delete(self, request: web.Request) -> web.Response:
        viewer, row, kind = await self._acting(request)
        return _answer(await actions.delete(viewer.client, kind, row))


def _key(request: web.Request) -> JobKey:
    parts = request.match_info
    return JobKey(parts["kind"], parts["namespace"], parts["name"])


def _decode(body: bytes, wanted: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=wanted)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RefusedError(400, "bad-request", f"the body cannot be read: {text(str(error), 300)}") from None


def _answer(body: object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), status=status, content_type="application/json")


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)
    if "Cache-Control" not in response.headers:
        response.headers["Cache-Control"] = "no-store"
