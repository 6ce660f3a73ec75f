"""The HTTP face of the job service: who may ask, what a call means, and how long it may wait for news.

Only the leading operator serves it. `lead()` starts with empty memory and reads each job's state when it is first asked
for; `retire()` ends every promise: whoever waits is told 503 and asks the next leader.
"""

import asyncio
import hmac
import ssl
import time
import uuid
from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from . import state as states
from .calls import answer, answer_refusals, decode, fenced, if_match, number, optional, seconds, token_of
from .desk import Desk, DeskCalls, NoDesk
from .durable import INTERVAL, Clock, DurableState, Sleep, Turns
from .record import JobRecord, Jobs, Progress
from .session import Session
from .state import LIMIT, Fence, NotLeadingError, RefusedError
from .store import Store

LOOK = 5.0  # how often a waiting call looks at the record again, should nobody have said that it changed

Name = tuple[str, str, str]
"""Namespace, name and the short name of the kind."""
Handler = Callable[[web.Request, Session], Awaitable[web.StreamResponse]]


class Claim(msgspec.Struct):
    holder: str
    address: str = ""
    wish: int | None = None


class Reporter(msgspec.Struct):
    """Who reports progress, if it says so."""

    pod: str = ""


class JobService:
    def __init__(
        self,
        store: Store,
        jobs: Jobs,
        *,
        clock: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        interval: float = INTERVAL,
        desk: Desk | None = None,
    ) -> None:
        self._desk = DeskCalls(desk or NoDesk(), self._when, clock)
        self._store, self._jobs, self._clock, self._sleep, self._interval = store, jobs, clock, sleep, interval
        self._turns = Turns(clock=clock, sleep=sleep)
        self._sessions: dict[Name, Session] = {}
        self._led_since: float | None = None
        self._writer = ""

    def lead(self) -> None:
        self._led_since, self._writer = self._clock(), uuid.uuid4().hex

    def retire(self) -> None:
        self._led_since = None
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()

    def changed(self, name: Name) -> None:
        """The job's record changed, or the job is gone: waiting calls learn it now instead of seconds later."""
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
        session = self._sessions.get(name)
        if session is None or session.reported_at is None:
            return None
        return session.progress, self._clock() - session.reported_at

    def silence(self, name: Name) -> dict[str, float]:
        """Seconds since each pod last reported progress, by name; of those that did so to this leader."""
        session = self._sessions.get(name)
        return session.silence() if session is not None else {}

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
            ("GET", "/job", self._job),
            ("GET", "/rendezvous", self._meet),
            ("GET", "/spec", self._desk.spec),
            ("GET", "/pods", self._desk.pods),
            ("GET", "/plan", self._desk.plan),
            ("POST", "/plan", self._desk.post),
            ("POST", "/usage", self._desk.usage),
            ("GET", "/brain", self._desk.brain),
        ]
        for method, path, handler in routes:
            app.router.add_route(method, job + path, self._for_its_job(handler))
        return app

    async def serve(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> web.AppRunner:
        """Listens until the runner's `cleanup()`; `runner.addresses` says where."""
        runner = web.AppRunner(self.app(), access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        await web.TCPSite(runner, host, port, ssl_context=tls).start()
        return runner

    def _for_its_job(self, handler: Handler) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            return await handler(request, await self._session(request))

        return handle

    async def _session(self, request: web.Request) -> Session:
        """The session of the job that the call's token opens."""
        if self._led_since is None:
            raise NotLeadingError("this replica does not lead")
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        records = self._jobs(namespace, name)
        if not records:
            raise RefusedError(404, "no-such-job", f"there is no job {namespace}/{name}")
        token = token_of(request).encode()
        record = next((one for one in records if one.token and hmac.compare_digest(token, one.token.encode())), None)
        if record is None:
            raise RefusedError(401, "unauthorized", f"this token does not open job {namespace}/{name}")
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
        session = Session(record, clock=self._clock, led_since=led_since)
        session.state = DurableState(
            namespace,
            name,
            record,
            store=self._store,
            turns=self._turns,
            clock=self._clock,
            sleep=self._sleep,
            writer=self._writer,
            interval=self._interval,
            on_commit=session.wake,
        )
        self._sessions[namespace, name, record.tag] = session
        return session

    async def _claim(self, request: web.Request, session: Session) -> web.Response:
        role, index = request.match_info["role"], number(request.match_info["index"], "slot index")
        return await self._take(session, role, index, decode(await request.read(), Claim))

    async def _claim_free(self, request: web.Request, session: Session) -> web.Response:
        role, claim = request.match_info["role"], decode(await request.read(), Claim)
        if role not in session.record.roles:
            raise RefusedError(404, "no-such-role", f"the job has no role {role}")
        return await self._take(session, role, None, claim)

    async def _take(self, session: Session, role: str, index: int | None, claim: Claim) -> web.Response:
        taken = index

        def change(state: states.JobState) -> tuple[states.JobState, int]:
            nonlocal taken
            if index is None:
                taken = self._free(session, state, role, claim)
            assert taken is not None
            return states.claim(state, role, taken, claim.holder, claim.address)

        session.claimed(claim.holder)
        epoch = await session.state.write(change)
        session.observe(session.record)
        return answer({"index": taken, "epoch": epoch})

    @staticmethod
    def _free(session: Session, state: states.JobState, role: str, claim: Claim) -> int:
        slots, size = states.role_slots(state, role), session.record.roles[role].replicas
        gone = {index for index, slot in slots.items() if session.gone(slot)}
        pod = claim.holder.partition("/")[0]
        free = states.free_index(slots, size, pod=pod, wish=claim.wish, gone=gone)
        if free is None:
            raise RefusedError(
                409, "no-free-slot", f"all {size} slots of {role} are held by pods that exist", retry_after=1
            )
        return free

    async def _list(self, request: web.Request, session: Session) -> web.Response:
        prefix = request.query.get("prefix", "")
        values = session.state.committed.values
        return answer({key: value.version for key, value in sorted(values.items()) if key.startswith(prefix)})

    async def _get(self, request: web.Request, session: Session) -> web.Response:
        key, after = request.match_info["key"], optional(request.query.get("after"), "after")

        def look(session: Session) -> web.Response | None:
            value = session.state.committed.values.get(key)
            if value and (after is None or value.version > after):
                return web.Response(body=value.data, headers={"ETag": f'"{value.version}"'})
            if value is None and after is None:
                raise RefusedError(404, "no-such-key", f"the job has no key {key}")
            return None

        return await self._when(request, session, look)

    async def _put(self, request: web.Request, session: Session) -> web.Response:
        key, expected, data = request.match_info["key"], if_match(request), await request.read()
        version = await session.state.write(fenced(request, lambda state: states.put(state, key, data, expected)))
        return answer({"version": version})

    async def _delete(self, request: web.Request, session: Session) -> web.Response:
        key, expected = request.match_info["key"], if_match(request)
        await session.state.write(fenced(request, lambda state: states.delete(state, key, expected)))
        return answer({})

    async def _report(self, request: web.Request, session: Session) -> web.Response:
        if "EDL-Slot" in request.headers:
            states.check(session.state.committed, Fence.parse(request.headers["EDL-Slot"]))
        body = await request.read()
        session.reported(decode(body, Progress), decode(body, Reporter).pod)
        return answer({})

    async def _job(self, request: web.Request, session: Session) -> web.Response:
        after = request.query.get("after")

        def look(session: Session) -> web.Response | None:
            view = session.view()
            return answer(view) if view["revision"] != after else None

        return await self._when(request, session, look)

    async def _meet(self, request: web.Request, session: Session) -> web.StreamResponse:
        return await session.meeting.attend(request)

    async def _when(
        self, request: web.Request, session: Session, look: Callable[[Session], web.Response | None]
    ) -> web.Response:
        """Answers as soon as there is an answer, 304 if there is none within the wait that the call allows."""
        wait = seconds(request.query.get("wait", "0"))
        until = self._clock() + wait
        while True:
            response = look(session)
            left = until - self._clock()
            if response is not None:
                return response
            if left <= 0:
                return web.Response(status=304)
            await session.news(min(left, LOOK))
            session = await self._session(request)
