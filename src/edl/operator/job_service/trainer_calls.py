"""Calls of an EasyDL job's trainer: its job's spec and pods, its plan, usage, and where the Brain is.

What is known of these comes from the operator, through `TrainerRequests`; docs/reference/job-service.md has the bodies.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec
from aiohttp import web

from edl.operator.job_service.calls import answer, decode, fence_of, revision_of
from edl.operator.job_service.record import JobRecord
from edl.operator.job_service.refusals import RefusedError
from edl.operator.job_service.session import Session
from edl.operator.job_service.state import check
from edl.protocol.errors import ErrorCode
from edl.protocol.plans import (
    BrainAccess,
    ClusterCapacity,
    JobSpec,
    PlanAnswer,
    PlanStatus,
    PlanWritten,
    PostedPlan,
)
from edl.protocol.pods import PodList, PodListAnswer, PodReport, UsageReport

REASON_LENGTH = 1000


class TrainerRequests(Protocol):
    """The operator's side. `plan` is None, and `post` a RefusedError, for a job of a kind that has no plans."""

    def spec(self, namespace: str, name: str, record: JobRecord) -> JobSpec | None: ...

    def pods(self, namespace: str, name: str, record: JobRecord) -> list[PodReport]: ...

    def plan(self, namespace: str, name: str, record: JobRecord) -> PlanStatus | None: ...

    async def post(self, namespace: str, name: str, record: JobRecord, posted: PostedPlan) -> PlanWritten: ...

    def capacity(self, namespace: str) -> ClusterCapacity | None:
        """Of the whole cluster, or what the namespace's quotas allow if that is less; None if it is not known."""
        ...

    def brain(self, namespace: str, name: str, record: JobRecord) -> BrainAccess | None:
        """Where the Brain is, with a token for the job; None if the installation has none."""
        ...


class NoTrainerRequests:
    """For a job service without an operator behind it."""

    def spec(self, namespace: str, name: str, record: JobRecord) -> JobSpec | None:
        return None

    def pods(self, namespace: str, name: str, record: JobRecord) -> list[PodReport]:
        return []

    def plan(self, namespace: str, name: str, record: JobRecord) -> PlanStatus | None:
        return None

    async def post(self, namespace: str, name: str, record: JobRecord, posted: PostedPlan) -> PlanWritten:
        raise no_plans(name)

    def capacity(self, namespace: str) -> ClusterCapacity | None:
        return None

    def brain(self, namespace: str, name: str, record: JobRecord) -> BrainAccess | None:
        return None


def no_plans(name: str) -> RefusedError:
    return RefusedError(404, ErrorCode.NO_PLANS, f"job {name} has no plans: those are for EasyDL jobs")


When = Callable[[web.Request, Session, Callable[[Session], web.Response | None]], Awaitable[web.Response]]


class TrainerCalls:
    """`when` answers a call as soon as there is an answer, see `JobService`."""

    def __init__(self, requests: TrainerRequests, when: When) -> None:
        self._requests, self._when = requests, when

    async def spec(self, request: web.Request, session: Session) -> web.Response:
        found = self._requests.spec(*_named(request), session.record)
        return answer(found if found is not None else {})

    async def pods(self, request: web.Request, session: Session) -> web.Response:
        def changed(session: Session) -> web.Response | None:
            found = PodList(self._requests.pods(*_named(request), session.record))
            revision = revision_of(found)
            if revision == request.query.get("after"):
                return None
            pods = [msgspec.structs.replace(pod, usage=session.usage(pod.name)) for pod in found.pods]
            return answer(PodListAnswer(pods, revision))

        return await self._when(request, session, changed)

    async def plan(self, request: web.Request, session: Session) -> web.Response:
        def changed(session: Session) -> web.Response | None:
            found = self._requests.plan(*_named(request), session.record)
            if found is None:
                raise no_plans(request.match_info["name"])
            revision = revision_of(found)
            if revision == request.query.get("after"):
                return None
            capacity = self._requests.capacity(request.match_info["namespace"])
            return answer(PlanAnswer(**msgspec.structs.asdict(found), capacity=capacity, revision=revision))

        return await self._when(request, session, changed)

    async def post(self, request: web.Request, session: Session) -> web.Response:
        fence = fence_of(request)
        if fence is not None:
            check(session.state.committed, fence)
        posted = decode(await request.read(), PostedPlan)
        posted = msgspec.structs.replace(posted, reason=posted.reason[:REASON_LENGTH])
        return answer(await self._requests.post(*_named(request), session.record, posted))

    async def brain(self, request: web.Request, session: Session) -> web.Response:
        found = self._requests.brain(*_named(request), session.record)
        if found is None:
            message = "this installation has no Brain; `edl operator --brain-url` names one"
            raise RefusedError(404, ErrorCode.NO_BRAIN, message)
        return answer(found)

    async def usage(self, request: web.Request, session: Session) -> web.Response:
        report, known = decode(await request.read(), UsageReport), session.record.pods
        if known is not None and report.pod not in known:
            message = f"the job has no pod {report.pod[:63]} that runs"
            raise RefusedError(404, ErrorCode.NO_SUCH_POD, message)
        session.used(report)
        return answer({})


def _named(request: web.Request) -> tuple[str, str]:
    return request.match_info["namespace"], request.match_info["name"]
