"""What the job service can say of a job's pods and do about its plan: the contract with the operator, and the calls.

docs/job-service.md has the bodies.
"""

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec
from aiohttp import web

from . import state as states
from .calls import answer, decode
from .durable import Clock
from .record import JobRecord
from .session import Session
from .state import Fence, RefusedError

Data = dict[str, Any]
REASON_LENGTH = 1000


class Posted(msgspec.Struct, frozen=True):
    """A plan as a trainer posts it. `spec` is that of a JobResource without its selector."""

    spec: Data
    reason: str = ""


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a pod says that it uses: cores and MiB."""

    pod: str
    cpu: float | None = None
    memory: float | None = None


class Desk(Protocol):
    """The operator's side. `plan` is None, and `post` a RefusedError, for a job of a kind that has no plans."""

    def spec(self, namespace: str, name: str, record: JobRecord) -> Data: ...

    def pods(self, namespace: str, name: str, record: JobRecord) -> list[Data]: ...

    def plan(self, namespace: str, name: str, record: JobRecord) -> Data | None: ...

    async def post(self, namespace: str, name: str, record: JobRecord, posted: Posted) -> Data: ...

    def capacity(self) -> Data | None:
        """Cores, MiB and devices of the whole cluster, if they are known."""
        ...

    def brain(self, namespace: str, name: str) -> Data | None:
        """Where Brain is, with a token for the job; None if the installation has none."""
        ...


class NoDesk:
    def spec(self, namespace: str, name: str, record: JobRecord) -> Data:
        return {}

    def pods(self, namespace: str, name: str, record: JobRecord) -> list[Data]:
        return []

    def plan(self, namespace: str, name: str, record: JobRecord) -> Data | None:
        return None

    async def post(self, namespace: str, name: str, record: JobRecord, posted: Posted) -> Data:
        raise no_plans(name)

    def capacity(self) -> Data | None:
        return None

    def brain(self, namespace: str, name: str) -> Data | None:
        return None


def no_plans(name: str) -> RefusedError:
    return RefusedError(404, "no-plans", f"job {name} has no plans: those are for EasyDL jobs")


When = Callable[[web.Request, Session, Callable[[Session], web.Response | None]], Awaitable[web.Response]]


class DeskCalls:
    """`when` answers a call as soon as there is an answer, see `JobService`."""

    def __init__(self, desk: Desk, when: When, clock: Clock) -> None:
        self._desk, self._when, self._clock = desk, when, clock

    async def spec(self, request: web.Request, session: Session) -> web.Response:
        return answer(self._desk.spec(*_named(request), session.record))

    async def pods(self, request: web.Request, session: Session) -> web.Response:
        def body(session: Session) -> Data:
            return {"pods": self._desk.pods(*_named(request), session.record)}

        return await self._news(request, session, body)

    async def plan(self, request: web.Request, session: Session) -> web.Response:
        def body(session: Session) -> Data:
            found = self._desk.plan(*_named(request), session.record)
            if found is None:
                raise no_plans(request.match_info["name"])
            return found

        return await self._news(request, session, body, lambda: {"capacity": self._desk.capacity()})

    async def post(self, request: web.Request, session: Session) -> web.Response:
        if "EDL-Slot" in request.headers:
            states.check(session.state.committed, Fence.parse(request.headers["EDL-Slot"]))
        posted = decode(await request.read(), Posted)
        posted = msgspec.structs.replace(posted, reason=posted.reason[:REASON_LENGTH])
        return answer(await self._desk.post(*_named(request), session.record, posted))

    async def brain(self, request: web.Request, session: Session) -> web.Response:
        found = self._desk.brain(*_named(request))
        if found is None:
            raise RefusedError(404, "no-brain", "this installation has no Brain; `edl operator --brain-url` names one")
        return answer(found)

    async def usage(self, request: web.Request, session: Session) -> web.Response:
        told, known = decode(await request.read(), Usage), session.record.pods
        if known is not None and told.pod not in known:
            raise RefusedError(404, "no-such-pod", f"the job has no pod {told.pod[:63]} that runs")
        here = {pod: usage for pod, usage in session.usage.items() if known is None or pod in known}
        session.usage = {**here, told.pod: (told, self._clock())}
        return answer({})

    async def _news(
        self,
        request: web.Request,
        session: Session,
        body: Callable[[Session], Data],
        beside: Callable[[], Data] = dict,
    ) -> web.Response:
        """`beside` is told too, and is no news."""
        after = request.query.get("after")

        def look(session: Session) -> web.Response | None:
            found = body(session)
            revision = hashlib.blake2b(msgspec.json.encode(found), digest_size=8).hexdigest()
            if revision == after:
                return None
            for pod in found.get("pods", ()):
                pod["usage"] = self._used(session, pod["name"])
            return answer({**found, **beside(), "revision": revision})

        return await self._when(request, session, look)

    def _used(self, session: Session, pod: str) -> Data | None:
        known = session.usage.get(pod)
        if known is None:
            return None
        usage, at = known
        return {"cpu": usage.cpu, "memory": usage.memory, "age": self._clock() - at}


def _named(request: web.Request) -> tuple[str, str]:
    return request.match_info["namespace"], request.match_info["name"]
