"""The HTTP face of the Brain: who may ask, what is kept of it, and what the policy says.

Everything that lasts is in the store; in memory are only the lessons (read from it) and who asked lately, so that
several jobs are not advised to take the same room.
"""

import asyncio
import logging
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from aiohttp import web

from .advice import Advisor
from .database import UnavailableError
from .messages import Answer, Ask, Beginning, Ending, JobDetail, JobLine, Refusal, Report
from .openapi import document
from .policy.settings import DEFAULTS, Settings
from .store import JobRow, Store
from .tokens import TokenError, opens, subject_of

log = logging.getLogger(__name__)

T = TypeVar("T")
LIMIT = 4 << 20
RETRY = "1"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Brain:
    def __init__(
        self, store: Store, key: bytes, *, settings: Settings = DEFAULTS, clock: Callable[[], float] = time.time
    ) -> None:
        self._store, self.key, self._clock = store, key, clock
        self._advisor = Advisor(store, settings)
        self._document = msgspec.json.encode(document())

    def app(self) -> web.Application:
        app = web.Application(client_max_size=LIMIT, middlewares=[_answer_refusals])
        job = "/v1/jobs/{namespace}/{name}/{uid}"
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/readyz", self._ready)
        app.router.add_get("/openapi.json", self._openapi)
        app.router.add_post("/v1/plan", self._what_if)
        app.router.add_get("/v1/jobs", self._jobs)
        app.router.add_get("/v1/jobs/{namespace}/{name}", self._detail)
        app.router.add_get(job, self._detail)
        app.router.add_post(job, self._begin)
        app.router.add_post(f"{job}/reports", self._report)
        app.router.add_post(f"{job}/plan", self._plan)
        app.router.add_post(f"{job}/outcome", self._outcome)
        return app

    async def serve(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> web.AppRunner:
        """Listens until the runner's `cleanup()`; `runner.addresses` says where."""
        runner = web.AppRunner(self.app(), access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        await web.TCPSite(runner, host, port, ssl_context=tls).start()
        return runner

    def _caller(self, request: web.Request) -> str:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme != "Bearer" or not token:
            raise _RefusedError(401, "unauthorized", "send Authorization: Bearer TOKEN; `edl brain token` makes one")
        try:
            return subject_of(self.key, token, self._clock())
        except (TokenError, ValueError) as error:
            raise _RefusedError(401, "unauthorized", str(error)) from None

    def _job(self, request: web.Request) -> str:
        """The job that the call is about, which its token must open."""
        subject, parts = self._caller(request), request.match_info
        if any("/" in part for part in parts.values()):
            raise _RefusedError(400, "bad-name", "namespace, name and uid have no slash")
        if not opens(subject, f"{parts['namespace']}/{parts['name']}"):
            raise _RefusedError(
                403, "foreign", f"this token is for {subject}, not {parts['namespace']}/{parts['name']}"
            )
        return "/".join(parts[part] for part in ("namespace", "name", "uid") if part in parts)

    async def _health(self, request: web.Request) -> web.Response:
        return _answer({"status": "ok"})

    async def _ready(self, request: web.Request) -> web.Response:
        """Its database answers, too."""
        await self._store.jobs(1)
        return _answer({"status": "ok"})

    async def _openapi(self, request: web.Request) -> web.Response:
        return web.Response(body=self._document, content_type="application/json")

    async def _what_if(self, request: web.Request) -> web.Response:
        self._caller(request)
        asked = _decode(await request.read(), Beginning)
        plan = await self._advisor.start("", asked.features, asked.capacity)
        return _answer(Answer(plan.reason, plan))

    async def _begin(self, request: web.Request) -> web.Response:
        job, asked = self._job(request), _decode(await request.read(), Beginning)
        await self._store.begin(job, asked.features, self._clock())
        plan = await self._advisor.start(job, asked.features, asked.capacity)
        log.info("%s starts: %s", job, plan.reason)
        return _answer(Answer(plan.reason, plan))

    async def _report(self, request: web.Request) -> web.Response:
        job, report = self._job(request), _decode(await request.read(), Report)
        await self._store.report(job, report.samples, report.plans, report.incidents)
        return _answer({})

    async def _plan(self, request: web.Request) -> web.Response:
        job, ask, now = self._job(request), _decode(await request.read(), Ask), self._clock()
        await self._store.report(job, ask.samples, ask.plans, ask.incidents, now)
        verdict = await self._advisor.next(job, ask, now)
        if verdict is None:
            raise _RefusedError(404, "no-such-job", f"no job {job} has begun here; POST its features first")
        log.info("%s: %s", job, verdict.reason)
        return _answer(Answer(verdict.reason, verdict.plan, verdict.judgement))

    async def _outcome(self, request: web.Request) -> web.Response:
        job, ending, now = self._job(request), _decode(await request.read(), Ending), self._clock()
        await self._store.end(job, ending.outcome, now)
        await self._advisor.conclude(job, ending.outcome, now)
        return _answer({})

    async def _jobs(self, request: web.Request) -> web.Response:
        subject, limit = self._caller(request), request.query.get("limit", "100")
        if not limit.isdecimal() or not 1 <= int(limit) <= 10_000:
            raise _RefusedError(400, "bad-number", f"limit is {limit!r}, it must be a number from 1 to 10000")
        rows = await self._store.jobs(int(limit))
        return _answer([_line(row) for row in rows if opens(subject, row.job.rpartition("/")[0])])

    async def _detail(self, request: web.Request) -> web.Response:
        asked = self._job(request)
        job = await self._store.named(asked)
        story = await self._store.story(job) if job else None
        if story is None:
            raise _RefusedError(
                404, "no-such-job", f"no job {asked} has begun here; `edl brain jobs` lists those that have"
            )
        return _answer(JobDetail(_line(story.job), story.plans, story.samples, story.incidents))


def _line(row: JobRow) -> JobLine:
    return JobLine(row.job, row.features, row.created, row.updated, row.outcome)


class _RefusedError(Exception):
    def __init__(self, status: int, code: str, words: str) -> None:
        super().__init__(words)
        self.status, self.code = status, code


def _decode(body: bytes, wanted: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=wanted)
    except msgspec.DecodeError as error:
        raise _RefusedError(400, "bad-body", f"the body cannot be read: {error}") from None


def _answer(body: object, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), status=status, content_type="application/json")


@web.middleware
async def _answer_refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except _RefusedError as refused:
        return _answer(Refusal(str(refused), refused.code), refused.status)
    except UnavailableError as error:
        log.warning("the database does not answer: %s", error)
        response = _answer(Refusal("the database does not answer; try again", "unavailable"), 503)
        response.headers["Retry-After"] = RETRY
        return response
    except web.HTTPRequestEntityTooLarge:
        return _answer(Refusal(f"a body has at most {LIMIT} bytes", "too-large"), 413)
    except web.HTTPException as error:
        return _answer(Refusal(error.reason, "no-such-call"), error.status)
    except asyncio.CancelledError:
        raise
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        return _answer(Refusal("the Brain failed on this call; its log says how", "internal"), 500)
