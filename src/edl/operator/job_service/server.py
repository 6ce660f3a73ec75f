"""HTTP server of the job service: authorisation, slots, keys and values, progress, and calls that wait for a change.

Only the leading operator serves it. `lead()` starts with empty memory and reads each job's state when it is first asked
for; `retire()` answers every call that waits with 503, so that it is repeated to the next leader.
"""

import asyncio
import ssl
import time
import uuid
from collections.abc import Awaitable, Callable

from aiohttp import web

from edl.api.status import RootCause
from edl.ledger.job_use import KeptLedger
from edl.operator.job_service import state as states
from edl.operator.job_service.call_limits import OpenCalls
from edl.operator.job_service.calls import (
    answer,
    answer_refusals,
    decode,
    fence_of,
    fenced,
    if_match,
    number,
    optional,
    seconds,
    token_of,
)
from edl.operator.job_service.group_commit import INTERVAL, Clock, DurableState, RateLimiter, Sleep
from edl.operator.job_service.memory_budget import MemoryBudget
from edl.operator.job_service.record import JobRecord, Jobs, Name
from edl.operator.job_service.refusals import NotLeadingError, RefusedError
from edl.operator.job_service.reported_progress import check_figures
from edl.operator.job_service.restore_watch import RestoreWatch
from edl.operator.job_service.session import Session
from edl.operator.job_service.state import LIMIT
from edl.operator.job_service.store import Store
from edl.operator.job_service.trainer_calls import NoTrainerRequests, TrainerCalls, TrainerRequests
from edl.operator.throughput.sampling import Sampler
from edl.protocol import progress_server
from edl.protocol.errors import ErrorCode
from edl.protocol.progress import LastProgress, Progress, ProgressReport
from edl.protocol.rounds import RoundChange
from edl.protocol.slots import Claim, Claimed
from edl.protocol.trainer_status import TrainerStatusUpdate
from edl.serving.http import proved, serve_app
from edl.throughput.measurements import Measurements

RECHECK = 5.0  # seconds after which a waiting call reads the record again, should nobody have said that it changed

Handler = Callable[[web.Request, Session], Awaitable[web.StreamResponse]]


class JobService:
    def __init__(
        self,
        store: Store,
        jobs: Jobs,
        *,
        clock: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        interval: float = INTERVAL,
        trainer_requests: TrainerRequests | None = None,
    ) -> None:
        self._trainer = TrainerCalls(trainer_requests or NoTrainerRequests(), self._when)
        self._jobs, self._clock, self._sleep, self._interval = jobs, clock, sleep, interval
        self._store = RestoreWatch(store)
        self._limiter = RateLimiter(clock=clock, sleep=sleep)
        self._calls, self._budget = OpenCalls(), MemoryBudget()
        self._sessions: dict[Name, Session] = {}
        self._reported: set[Name] = set()
        self._hopeless: set[Name] = set()
        self._changes: dict[Name, RoundChange] = {}
        self._led_since: float | None = None
        self._writer = ""

    def lead(self) -> None:
        self._led_since, self._writer = self._clock(), uuid.uuid4().hex

    def retire(self) -> None:
        self._led_since = None
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()
        self._store.clear()

    def changed(self, name: Name) -> None:
        """The job's record changed, or the job is gone: wakes calls that wait for it."""
        session = self._sessions.get(name)
        if session is None:
            return
        record = next((record for record in self._jobs(*name[:2]) if record.uid == session.record.uid), None)
        if record is not None:
            session.observe(record)
        else:
            self._sessions.pop(name).close()

    def progress(self, name: Name) -> tuple[Progress, float] | None:
        """The job's last report and its age in seconds, None if this leader has had none."""
        last = self.last_progress(name)
        return (last, last.age) if last is not None else None

    def last_progress(self, name: Name) -> LastProgress | None:
        """The same with what follows from all reports: pace, mean, time left."""
        session = self._sessions.get(name)
        return session.progress if session is not None else None

    def take_reported(self) -> set[Name]:
        """Jobs that reported since the last call."""
        taken, self._reported = self._reported, set()
        return taken

    def sampler(self, name: Name) -> Sampler | None:
        """What the job has measured, an earlier leader's measurements included; None if its state is not read yet."""
        session = self._sessions.get(name)
        if session is None or not session.state.loaded:
            return None
        session.sampler.restore(session.state.committed.measured)
        return session.sampler

    async def keep_measured(self, name: Name) -> None:
        """Returns once what the job has measured is in its state. RefusedError, UnavailableError: it is not."""
        session = self._sessions.get(name)
        if session is not None and session.state.loaded:
            measured = session.sampler.measured
            await session.state.write(lambda state: states.keep_measured(state, measured))

    async def read_measured(self, namespace: str, name: str, record: JobRecord) -> Measurements | None:
        """As an earlier leader has kept it."""
        stored = await self._store.load(namespace, name, record)
        return stored.state.measured if stored is not None else None

    def hopeless(self, name: Name) -> RootCause | None:
        """Why the job's script cannot work, if its rounds say so."""
        session = self._sessions.get(name)
        return session.rendezvous.hopeless if session is not None else None

    def take_hopeless(self) -> set[Name]:
        """Jobs of which this became known since the last call."""
        found = {name for name, session in self._sessions.items() if session.rendezvous.hopeless is not None}
        news, self._hopeless = found - self._hopeless, found
        return news

    def state_wait(self, name: Name) -> str | None:
        """What a restored job waits for before its state can be read; empty: nothing; None: it is not known yet."""
        return self._store.wait_of(name)

    def take_state_waits(self) -> set[Name]:
        """Jobs that began or ceased to wait so since the last call."""
        return self._store.take_news(self._jobs)

    def change(self, name: Name) -> RoundChange | None:
        """How the job's workers came into the round that they train in, if there was one before it."""
        session = self._sessions.get(name)
        return session.rendezvous.change if session is not None else None

    def take_changes(self) -> dict[Name, RoundChange]:
        """Those that were made since the last call."""
        known = {name: change for name in self._sessions if (change := self.change(name)) is not None}
        news = {name: change for name, change in known.items() if self._changes.get(name) != change}
        self._changes = {name: change for name, change in {**self._changes, **known}.items() if name in self._sessions}
        return news

    def silence(self, name: Name) -> dict[str, float]:
        """Seconds since each pod last reported progress, by name; of those that did so to this leader."""
        session = self._sessions.get(name)
        return session.silence() if session is not None else {}

    async def load_ledger(self, name: Name, uid: str) -> KeptLedger | None:
        """The account that was last kept of the job, None if there is none."""
        session = self._known_session(name, uid)
        return (await session.state.load()).ledger if session is not None else None

    async def keep_ledger(self, name: Name, uid: str, kept: KeptLedger) -> None:
        """Durable when it returns, unless the job is gone. Within the limits of all writes."""
        session = self._known_session(name, uid)
        if session is not None:
            await session.state.write(lambda state: states.keep_ledger(state, kept))

    def _known_session(self, name: Name, uid: str) -> Session | None:
        if self._led_since is None:
            raise NotLeadingError("this replica does not lead")
        namespace, job, _ = name
        record = next((record for record in self._jobs(namespace, job) if record.uid == uid), None)
        return self._open(namespace, job, record, self._led_since) if record is not None else None

    def app(self) -> web.Application:
        app = web.Application(client_max_size=LIMIT + 1024, middlewares=[answer_refusals])
        job = "/v1/jobs/{namespace}/{name}"
        routes: list[tuple[str, str, Handler]] = [
            ("POST", "/slots/{role}/{index}", self._claim),
            ("POST", "/slots/{role}", self._claim_free),
            ("GET", "/kv", self._list),
            ("GET", "/kv/{key}", self._get),
            ("PUT", "/kv/{key}", self._put),
            ("DELETE", "/kv/{key}", self._delete),
            ("POST", "/progress", self._report),
            ("POST", f"/{progress_server.CALL}", self._trainer_status),
            ("GET", "/job", self._job),
            ("GET", "/rendezvous", self._rendezvous),
            ("GET", "/spec", self._trainer.spec),
            ("GET", "/pods", self._trainer.pods),
            ("GET", "/plan", self._trainer.plan),
            ("POST", "/plan", self._trainer.post),
            ("POST", "/usage", self._trainer.usage),
            ("GET", "/brain", self._trainer.brain),
        ]
        for method, path, handler in routes:
            app.router.add_route(method, job + path, self._for_its_job(handler))
        return app

    async def serve(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> web.AppRunner:
        """Listens until the runner's `cleanup()`; `runner.addresses` says where."""
        return await serve_app(self.app(), host, port, tls=tls)

    def _for_its_job(self, handler: Handler) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            session = await self._session(request)
            with session.limits.admitted(session.record, self._clock()):
                return await handler(request, session)

        return handle

    async def _session(self, request: web.Request) -> Session:
        """The session of the job that the call's token opens."""
        if self._led_since is None:
            raise NotLeadingError("this replica does not lead")
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        records, token = self._jobs(namespace, name), token_of(request)
        record = next((one for one in records if one.is_opened_by(token)), None)
        if record is None:  # the same whether or not there is such a job, which is nobody else's business
            raise RefusedError(401, ErrorCode.UNAUTHORIZED, f"this token does not open job {namespace}/{name}")
        proved(request)
        session = self._open(namespace, name, record, self._led_since)
        await session.state.load()
        session.observe(record)
        return session

    def _open(self, namespace: str, name: str, record: JobRecord, led_since: float) -> Session:
        session = self._sessions.get((namespace, name, record.tag))
        if session and session.record.uid == record.uid:
            return session
        if session:
            session.close()

        def open_state(on_commit: Callable[[], None]) -> DurableState:
            return DurableState(
                namespace,
                name,
                record,
                store=self._store,
                limiter=self._limiter,
                clock=self._clock,
                sleep=self._sleep,
                writer=self._writer,
                interval=self._interval,
                on_commit=on_commit,
                budget=self._budget,
            )

        session = Session(record, open_state, clock=self._clock, led_since=led_since, all_calls=self._calls)
        self._sessions[namespace, name, record.tag] = session
        return session

    async def _claim(self, request: web.Request, session: Session) -> web.Response:
        role, index = request.match_info["role"], number(request.match_info["index"], "slot index")
        return await self._take(session, role, index, decode(await request.read(), Claim))

    async def _claim_free(self, request: web.Request, session: Session) -> web.Response:
        role, claim = request.match_info["role"], decode(await request.read(), Claim)
        if role not in session.record.roles:
            raise RefusedError(404, ErrorCode.NO_SUCH_ROLE, f"the job has no role {role}")
        return await self._take(session, role, None, claim)

    async def _take(self, session: Session, role: str, index: int | None, claim: Claim) -> web.Response:
        taken = index

        def change(state: states.JobState) -> tuple[states.JobState, int]:
            nonlocal taken
            if index is None:
                taken = self._free(session, state, role, claim)
            assert taken is not None
            claimed, epoch = states.claim(state, role, taken, claim.holder, claim.address)
            session.note_claim(claim.holder, claimed)  # not before: nothing is kept of a claim that is refused
            return claimed, epoch

        epoch = await session.state.write(change)
        session.observe(session.record)
        assert taken is not None
        return answer(Claimed(taken, epoch))

    @staticmethod
    def _free(session: Session, state: states.JobState, role: str, claim: Claim) -> int:
        slots, size = states.role_slots(state, role), session.record.roles[role].replicas
        gone = {index for index, slot in slots.items() if session.gone(slot)}
        pod = claim.holder.partition("/")[0]
        free = states.free_index(slots, size, pod=pod, wish=claim.wish, gone=gone)
        if free is None:
            raise RefusedError(
                409, ErrorCode.NO_FREE_SLOT, f"all {size} slots of {role} are held by pods that exist", retry_after=1
            )
        return free

    async def _list(self, request: web.Request, session: Session) -> web.Response:
        prefix = request.query.get("prefix", "")
        values = session.state.committed.values
        return answer({key: value.version for key, value in sorted(values.items()) if key.startswith(prefix)})

    async def _get(self, request: web.Request, session: Session) -> web.Response:
        key, after = request.match_info["key"], optional(request.query.get("after"), "after")

        def changed(session: Session) -> web.Response | None:
            value = session.state.committed.values.get(key)
            if value and (after is None or value.version > after):
                return web.Response(body=value.data, headers={"ETag": f'"{value.version}"'})
            if value is None and after is None:
                raise RefusedError(404, ErrorCode.NO_SUCH_KEY, f"the job has no key {key}")
            return None

        return await self._when(request, session, changed)

    async def _put(self, request: web.Request, session: Session) -> web.Response:
        key, expected, data = request.match_info["key"], if_match(request), await request.read()
        version = await session.state.write(fenced(request, lambda state: states.put(state, key, data, expected)))
        return answer({"version": version})

    async def _delete(self, request: web.Request, session: Session) -> web.Response:
        key, expected = request.match_info["key"], if_match(request)
        await session.state.write(fenced(request, lambda state: states.delete(state, key, expected)))
        return answer({})

    async def _report(self, request: web.Request, session: Session) -> web.Response:
        fence = fence_of(request)
        if fence is not None:
            states.check(session.state.committed, fence)
        self._note_report(request, session, decode(await request.read(), ProgressReport))
        return answer({})

    async def _trainer_status(self, request: web.Request, session: Session) -> web.Response:
        self._note_report(request, session, decode(await request.read(), TrainerStatusUpdate).report())
        return answer({})

    def _note_report(self, request: web.Request, session: Session, report: ProgressReport) -> None:
        check_figures(report)
        session.reported(report)
        self._reported.add((request.match_info["namespace"], request.match_info["name"], session.record.tag))

    async def _job(self, request: web.Request, session: Session) -> web.Response:
        after = request.query.get("after")

        def changed(session: Session) -> web.Response | None:
            view = session.view()
            return answer(view) if view.revision != after else None

        return await self._when(request, session, changed)

    async def _rendezvous(self, request: web.Request, session: Session) -> web.StreamResponse:
        return await session.rendezvous.serve(request)

    async def _when(
        self, request: web.Request, session: Session, changed: Callable[[Session], web.Response | None]
    ) -> web.Response:
        """Answers as soon as there is an answer, 304 if there is none within the wait that the call allows."""
        wait = seconds(request.query.get("wait", "0"))
        until = self._clock() + wait
        while True:
            response = changed(session)
            left = until - self._clock()
            if response is not None:
                return response
            if left <= 0:
                return web.Response(status=304)
            await session.wait_for_change(min(left, RECHECK))
            session = await self._session(request)
