"""Prometheus metrics of the Brain: how it is asked, how it answers, and whether its database does.

They name no job and no namespace. METRICS is the whole list, for the documentation.
"""

from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.typedefs import Middleware
from prometheus_client import CollectorRegistry, generate_latest

from edl.kube.controllers.metrics import MetricSpec

CALLS = MetricSpec("counter", "edl_brain_calls", "Calls to Brain, by path and code of the answer", ["call", "code"])
SECONDS = MetricSpec("histogram", "edl_brain_call_seconds", "Time that Brain took to answer", ["call"])
DATABASE = MetricSpec("gauge", "edl_brain_database_up", "1 if Brain's database answers, else 0")
PAST = MetricSpec("gauge", "edl_brain_past_jobs", "Jobs that Brain has learned from")
METRICS = (CALLS, SECONDS, DATABASE, PAST)
_OTHER = "other"  # a path that there is none of: who asks for ever new ones fills nothing
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class BrainMetrics:
    """`clock` measures how long answers take."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._registry = clock, CollectorRegistry()
        self._calls, self._seconds = CALLS.instrument(self._registry), SECONDS.instrument(self._registry)
        self._database, self._past = DATABASE.instrument(self._registry), PAST.instrument(self._registry)

    def middleware(self) -> Middleware:
        """Goes around all others, which turn every error into an answer."""

        @web.middleware
        async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
            started = self._clock()
            answer = await handler(request)
            resource = request.match_info.route.resource
            call = resource.canonical if resource is not None else _OTHER
            self._calls.labels(call, str(answer.status)).inc()
            self._seconds.labels(call).observe(self._clock() - started)
            return answer

        return count

    def text(self, *, database_up: bool, past_jobs: int) -> bytes:
        self._database.set(database_up)
        self._past.set(past_jobs)
        return generate_latest(self._registry)
