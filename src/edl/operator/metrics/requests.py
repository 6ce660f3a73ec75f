"""Prometheus metrics of requests to the API server: a transport that counts and times what passes through it."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from prometheus_client.core import Metric

from edl.kube.controllers.metrics import MetricSpec
from edl.kube.rest.transport import Request, Response, Transport

CALLS = MetricSpec("counter", "edl_api_calls", "Calls to the API server", ["method", "resource", "code"])
SECONDS = MetricSpec("histogram", "edl_api_seconds", "Time that the API server took", ["method"])
METRICS = (CALLS, SECONDS)

LOST = "lost"  # instead of a code: no answer came


class MeteredTransport:
    """Register it with a prometheus_client registry. Streams are counted when they begin, and not timed."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.calls: Counter[tuple[str, str, str]] = Counter()
        """By method, resource and the code of the answer."""
        self._seconds = SECONDS.instrument(None)

    async def request(self, request: Request) -> Response:
        clock = asyncio.get_running_loop().time
        started, code = clock(), LOST
        try:
            answer = await self._transport.request(request)
            code = str(answer.code)
            return answer
        finally:
            self.calls[request.method, resource_in(request.path), code] += 1
            self._seconds.labels(request.method).observe(clock() - started)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response]:
        code = LOST
        try:
            async with self._transport.stream(request) as answer:
                code = str(answer.code)
                self.calls["WATCH", resource_in(request.path), code] += 1
                yield answer
        finally:
            if code is LOST:
                self.calls["WATCH", resource_in(request.path), code] += 1

    async def close(self) -> None:
        await self._transport.close()

    def collect(self) -> Iterable[Metric]:
        yield CALLS.family(sorted(self.calls.items()))
        yield from self._seconds.collect()


def resource_in(path: str) -> str:
    """`pods` or `pods/status` from the path of a call; names of objects and namespaces are left out."""
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:] if parts[0] == "apis" else []
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    return "/".join(rest[::2]) if rest else "/".join(parts[:1])
