"""HTTP server of the Brain: authorisation, storing reports, and asking the policy for plans.

Everything that lasts is in the store; in memory are only the summaries of past jobs (read from it) and the demands of
jobs that asked lately, so that several jobs are not advised to take the same capacity. A namespace has a quota of what
is kept and answered for it.
"""

import logging
import ssl
import time
from collections.abc import Callable

import msgspec
from aiohttp import web

from edl.brain.advice import Advisor
from edl.brain.calls import LIMIT, RefusedError, answer, answer_refusals, decode
from edl.brain.database import UnavailableError
from edl.brain.history_calls import HistoryCalls
from edl.brain.history_store import HistoryStore
from edl.brain.log_calls import LogCalls
from edl.brain.log_store import LogStore
from edl.brain.metrics import BrainMetrics
from edl.brain.openapi import document
from edl.brain.policy.settings import DEFAULTS, Settings
from edl.brain.quotas import CallRates, Quota
from edl.brain.store import JobRow, Store
from edl.brain.tokens import METRICS, TokenError, namespace_of, opens, subject_of
from edl.protocol.brain import Answer, Ask, Beginning, Ending, JobDetail, JobLine, Report
from edl.protocol.errors import ErrorCode
from edl.serving.http import proved, serve_app

log = logging.getLogger(__name__)


class Brain:
    """`share_history`: the administrator lets jobs of every namespace learn from each other."""

    def __init__(
        self,
        store: Store,
        key: bytes,
        *,
        settings: Settings = DEFAULTS,
        quota: Quota = Quota(),  # noqa: B008 - it is immutable
        share_history: bool = False,
        history: HistoryStore | None = None,
        logs: LogStore | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store, self.key, self._clock = store, key, clock
        self.history = history or HistoryStore(store.database)
        self._logs = logs or LogStore(store.database)
        self._advisor = Advisor(store, settings, share_history=share_history)
        self._rates = CallRates(quota.calls)
        self._document = msgspec.json.encode(document())
        self._metrics = BrainMetrics(time.monotonic)

    def app(self) -> web.Application:
        app = web.Application(client_max_size=LIMIT, middlewares=[self._metrics.middleware(), answer_refusals])
        job = "/v1/jobs/{namespace}/{name}/{uid}"
        app.router.add_get("/healthz", self._health)
        app.router.add_get("/readyz", self._ready)
        app.router.add_get("/metrics", self._show_metrics)
        app.router.add_get("/openapi.json", self._openapi)
        app.router.add_post("/v1/plan", self._what_if)
        app.router.add_get("/v1/jobs", self._jobs)
        app.router.add_get("/v1/jobs/{namespace}/{name}", self._detail)
        app.router.add_get(job, self._detail)
        app.router.add_post(job, self._begin)
        app.router.add_post(f"{job}/reports", self._report)
        app.router.add_post(f"{job}/plan", self._plan)
        app.router.add_post(f"{job}/outcome", self._outcome)
        LogCalls(self._logs, self._caller, self._job, self._clock).add_to(app)  # first: its paths look like a uid's
        HistoryCalls(self.history, self._caller, self._clock).add_to(app)
        return app

    async def serve(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> web.AppRunner:
        """Listens until the runner's `cleanup()`; `runner.addresses` says where."""
        return await serve_app(self.app(), host, port, tls=tls)

    def _caller(self, request: web.Request, rates: CallRates | None = None) -> str:
        """The subject of the call's token. One for metrics opens nothing else. The call counts against `rates`."""
        subject = self._bearer(request)
        if subject == METRICS:
            raise RefusedError(403, ErrorCode.FOREIGN, "this token is for /metrics alone")
        self._count(namespace_of(subject) or request.match_info.get("namespace", ""), request, rates or self._rates)
        return subject

    def _bearer(self, request: web.Request) -> str:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme != "Bearer" or not token:
            raise RefusedError(
                401, ErrorCode.UNAUTHORIZED, "send Authorization: Bearer TOKEN; `edl brain token` makes one"
            )
        try:
            subject = subject_of(self.key, token, self._clock())
        except (TokenError, ValueError) as error:
            raise RefusedError(401, ErrorCode.UNAUTHORIZED, str(error)) from None
        proved(request)
        return subject

    def _count(self, namespace: str, request: web.Request, rates: CallRates) -> None:
        """Before the body is read; one of unknown length counts as the longest."""
        size = LIMIT if request.content_length is None and request.body_exists else request.content_length or 0
        if wait := rates.take(namespace, size, self._clock()):
            message = f"namespace {namespace or '*'} asks too often; try again in {wait:.1f} s"
            raise RefusedError(429, ErrorCode.TOO_MANY_CALLS, message)

    def _job(self, request: web.Request, rates: CallRates | None = None) -> str:
        """The job that the call is about, which its token must open."""
        subject, parts = self._caller(request, rates), request.match_info
        if any("/" in part for part in parts.values()):
            raise RefusedError(400, ErrorCode.BAD_NAME, "namespace, name and uid have no slash")
        job = "/".join(parts[part] for part in ("namespace", "name", "uid") if part in parts)
        if subject.startswith(f"{job}/"):
            return subject  # named without its uid, which the token has
        if not opens(subject, job):
            raise RefusedError(403, ErrorCode.FOREIGN, f"this token is for {subject}, not {job}")
        return job

    async def _health(self, request: web.Request) -> web.Response:
        return answer({"status": "ok"})

    async def _ready(self, request: web.Request) -> web.Response:
        """Its database answers, too."""
        await self._store.jobs(1)
        return answer({"status": "ok"})

    async def _show_metrics(self, request: web.Request) -> web.Response:
        """They are there while the database is not: that is when they are needed."""
        if (subject := self._bearer(request)) not in (METRICS, "*"):
            raise RefusedError(403, ErrorCode.FOREIGN, f"this token is for {subject}, not for metrics")
        try:
            past, up = len(await self._store.past_jobs()), True
        except UnavailableError:
            past, up = 0, False
        body = self._metrics.text(database_up=up, past_jobs=past)
        return web.Response(body=body, content_type="text/plain", charset="utf-8")

    async def _openapi(self, request: web.Request) -> web.Response:
        return web.Response(body=self._document, content_type="application/json")

    async def _what_if(self, request: web.Request) -> web.Response:
        subject = self._caller(request)
        asked = decode(await request.read(), Beginning)
        if own := namespace_of(subject):
            asked = _of_namespace(asked, own)
        plan = await self._advisor.start("", asked)
        return answer(Answer(plan.reason, plan))

    async def _begin(self, request: web.Request) -> web.Response:
        job, asked = self._job(request), decode(await request.read(), Beginning)
        asked = _of_namespace(asked, request.match_info["namespace"])
        await self._store.begin(job, asked.features, self._clock())
        plan = await self._advisor.start(job, asked)
        log.info("%s starts: %s", job, plan.reason)
        return answer(Answer(plan.reason, plan))

    async def _report(self, request: web.Request) -> web.Response:
        job, report = self._job(request), decode(await request.read(), Report)
        if not await self._store.report(job, report.samples, report.plans, report.incidents, now=self._clock()):
            raise _unknown(job)
        return answer({})

    async def _plan(self, request: web.Request) -> web.Response:
        job, ask, now = self._job(request), decode(await request.read(), Ask), self._clock()
        await self._store.report(job, ask.samples, ask.plans, ask.incidents, now=now)
        decision = await self._advisor.next(job, ask, now)
        if decision is None:
            raise _unknown(job)
        log.info("%s: %s", job, decision.reason)
        return answer(Answer(decision.reason, decision.plan, decision.evaluation))

    async def _outcome(self, request: web.Request) -> web.Response:
        job, ending, now = self._job(request), decode(await request.read(), Ending), self._clock()
        await self._store.end(job, ending.outcome, now)
        await self._advisor.conclude(job, ending.outcome, now)
        return answer({})

    async def _jobs(self, request: web.Request) -> web.Response:
        subject, limit = self._caller(request), request.query.get("limit", "100")
        if not limit.isdecimal() or not 1 <= int(limit) <= 10_000:
            raise RefusedError(400, ErrorCode.BAD_NUMBER, f"limit is {limit!r}, it must be a number from 1 to 10000")
        rows = await self._store.jobs(int(limit), namespace_of(subject))
        return answer([_line(row) for row in rows if opens(subject, row.job)])

    async def _detail(self, request: web.Request) -> web.Response:
        asked = self._job(request)
        job = await self._store.named(asked)
        history = await self._store.history(job) if job else None
        if history is None:
            raise RefusedError(
                404, ErrorCode.NO_SUCH_JOB, f"no job {asked} has begun here; `edl brain jobs` lists those that have"
            )
        return answer(JobDetail(_line(history.job), history.plans, history.samples, history.incidents))


def _line(row: JobRow) -> JobLine:
    return JobLine(row.job, row.features, row.created, row.updated, row.outcome)


def _unknown(job: str) -> RefusedError:
    return RefusedError(404, ErrorCode.NO_SUCH_JOB, f"no job {job} has begun here; POST its features first")


def _of_namespace(asked: Beginning, namespace: str) -> Beginning:
    """Whatever the caller says: its token alone says whose history it shares."""
    features = msgspec.structs.replace(asked.features, namespace=namespace)
    return msgspec.structs.replace(asked, features=features)
