"""The calls about history: the operator writes it, a token reads what it may act for, a reader's token all of it."""

import math
from collections.abc import Callable

from aiohttp import web

from edl.brain.calls import RefusedError, answer, decode
from edl.brain.history_store import HistoryStore
from edl.brain.tokens import namespace_of, opens, reads_all, writes_history
from edl.protocol.errors import ErrorCode
from edl.protocol.history import HistoryBatch, HistoryLine

MOST_LINES, MOST_POINTS = 10_000, 10_000


class HistoryCalls:
    """`caller` gives the subject of a request's token, or refuses it."""

    def __init__(self, history: HistoryStore, caller: Callable[[web.Request], str], clock: Callable[[], float]) -> None:
        self._history, self._caller, self._clock = history, caller, clock

    def add_to(self, app: web.Application) -> None:
        app.router.add_post("/v1/history", self._add)
        app.router.add_get("/v1/history", self._lines)
        app.router.add_get("/v1/history/jobs/{namespace}/{name}", self._past)
        app.router.add_get("/v1/history/jobs/{namespace}/{name}/{uid}", self._past)
        app.router.add_get("/v1/history/cluster", self._cluster)
        app.router.add_get("/v1/history/report", self._report)

    async def _add(self, request: web.Request) -> web.Response:
        subject = self._caller(request)
        if not writes_history(subject):
            raise RefusedError(403, ErrorCode.FOREIGN, f"this token is for {subject}; the operator writes the history")
        await self._history.add(decode(await request.read(), HistoryBatch), self._clock())
        return answer({})

    async def _lines(self, request: web.Request) -> web.Response:
        subject = self._caller(request)
        limit = int(_number(request, "limit", 1000, most=MOST_LINES))
        namespace = _namespace(subject, request)
        lines = await self._history.lines(since=_number(request, "since", 0.0), namespace=namespace, limit=limit)
        return answer([line for line in lines if _visible(subject, line)])

    async def _past(self, request: web.Request) -> web.Response:
        subject, parts = self._caller(request), request.match_info
        namespace, name = parts["namespace"], parts["name"]
        own = subject.split("/")
        uid = parts.get("uid") or (own[2] if own[:2] == [namespace, name] and len(own) == 3 else "")
        if not reads_all(subject) and not opens(subject, "/".join(filter(None, (namespace, name, uid)))):
            raise RefusedError(403, ErrorCode.FOREIGN, f"this token is for {subject}, not {namespace}/{name}")
        uid = uid or await self._history.named(namespace, name) or ""
        past = await self._history.past(namespace, name, uid) if uid else None
        if past is None:
            message = f"no history of {namespace}/{name} is kept; `edl history` lists what is"
            raise RefusedError(404, ErrorCode.NO_SUCH_JOB, message)
        return answer(past)

    async def _cluster(self, request: web.Request) -> web.Response:
        subject = self._caller(request)
        if not reads_all(subject):
            raise RefusedError(403, ErrorCode.FOREIGN, f"this token is for {subject}, not for the whole cluster")
        since, until = self._period(request)
        points = int(_number(request, "points", 1000, most=MOST_POINTS))
        return answer(await self._history.cluster(since, until, max(1, points)))

    async def _report(self, request: web.Request) -> web.Response:
        subject = self._caller(request)
        since, until = self._period(request)
        namespace = _namespace(subject, request)
        report = await self._history.report(
            since,
            until,
            namespace=namespace,
            cluster=reads_all(subject) and not namespace,
            visible=lambda line: _visible(subject, line),
        )
        return answer(report)

    def _period(self, request: web.Request) -> tuple[float, float]:
        return _number(request, "since", 0.0), _number(request, "until", self._clock())


def _namespace(subject: str, request: web.Request) -> str:
    """What is asked for, unless the token opens but one."""
    return request.query.get("namespace", "") if reads_all(subject) else namespace_of(subject)


def _visible(subject: str, line: HistoryLine) -> bool:
    return reads_all(subject) or opens(subject, f"{line.namespace}/{line.name}/{line.uid}")


def _number(request: web.Request, name: str, otherwise: float, most: float = 1e11) -> float:
    text = request.query.get(name, "")
    try:
        number = float(text) if text else otherwise
    except ValueError:
        number = math.nan
    if not 0 <= number <= most:
        raise RefusedError(400, ErrorCode.BAD_NUMBER, f"{name} is {text!r}, it must be a number from 0 to {most:g}")
    return number
