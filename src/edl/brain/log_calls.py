"""The calls about logs of pods: a job's own pods write them, and a token reads what it may act for.

They have a budget of calls of their own for each namespace, so that who writes much keeps no trainer from its plan.
"""

from collections.abc import Callable
from typing import Protocol

from aiohttp import web

from edl.brain.calls import RefusedError, answer, decode
from edl.brain.log_store import LogStore
from edl.brain.quotas import CallRates
from edl.brain.tokens import opens, reads_all
from edl.protocol.errors import ErrorCode
from edl.protocol.kept_logs import KeptLogText, LogChunk

CALLS = 20.0
"""A second of each namespace; a call with more than 64 KiB counts as several."""


class Authorise(Protocol):
    """Gives the subject of a request's token, or refuses the call; `rates` is what it counts against."""

    def __call__(self, request: web.Request, rates: CallRates | None = None) -> str: ...


class LogCalls:
    def __init__(self, logs: LogStore, caller: Authorise, job: Authorise, clock: Callable[[], float]) -> None:
        """`job` gives the job that the call is about, which the token must open."""
        self._logs, self._caller, self._job, self._clock = logs, caller, job, clock
        self._rates = CallRates(CALLS)

    def add_to(self, app: web.Application) -> None:
        app.router.add_post("/v1/jobs/{namespace}/{name}/{uid}/logs", self._add)
        app.router.add_get("/v1/history/jobs/{namespace}/{name}/logs", self._list_newest)
        app.router.add_get("/v1/history/jobs/{namespace}/{name}/{uid}/logs", self._list)
        app.router.add_get("/v1/history/jobs/{namespace}/{name}/{uid}/logs/{pod}", self._text)

    async def _add(self, request: web.Request) -> web.Response:
        namespace, name, uid = self._job(request, self._rates).split("/")
        if not self._logs.keeps:
            raise RefusedError(404, ErrorCode.NO_LOGS, "this Brain keeps no logs; `edl brain --logs-mib` lets it")
        await self._logs.add((namespace, name, uid), decode(await request.read(), LogChunk), self._clock())
        return answer({})

    async def _list_newest(self, request: web.Request) -> web.Response:
        subject = self._caller(request)
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        uid = await self._logs.named(namespace, name) or ""
        self._check(subject, namespace, name, uid)
        return answer(await self._logs.pods(namespace, name, uid))

    async def _list(self, request: web.Request) -> web.Response:
        return answer(await self._logs.pods(*self._readable(request)))

    async def _text(self, request: web.Request) -> web.Response:
        job, pod = self._readable(request), request.match_info["pod"]
        since = request.query.get("since", "0")
        if not since.replace(".", "", 1).isdecimal():
            raise RefusedError(400, ErrorCode.BAD_NUMBER, f"since is {since!r}, it must be seconds since 1970")
        return answer(KeptLogText(pod=pod, lines=await self._logs.lines(job, pod, float(since))))

    def _readable(self, request: web.Request) -> tuple[str, str, str]:
        subject, parts = self._caller(request), request.match_info
        job = parts["namespace"], parts["name"], parts["uid"]
        self._check(subject, *job)
        return job

    def _check(self, subject: str, namespace: str, name: str, uid: str) -> None:
        job = "/".join(filter(None, (namespace, name, uid)))
        if not reads_all(subject) and not opens(subject, job):
            raise RefusedError(403, ErrorCode.FOREIGN, f"this token is for {subject}, not {job}")
