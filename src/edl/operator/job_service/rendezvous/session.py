"""The rendezvous of one job under one leader: connections to its agents, rounds announced once they are durable.

An agent keeps one WebSocket open; its end is the first sign of the agent's death. All decisions are the lobby's.
"""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine

from aiohttp import WSMsgType, web

from edl.api.status import RootCause
from edl.operator.job_service import state as states
from edl.operator.job_service.group_commit import Clock, DurableState
from edl.operator.job_service.record import JobRecord
from edl.operator.job_service.refusals import RefusedError
from edl.operator.job_service.rendezvous.lobby import Lobby
from edl.operator.job_service.rendezvous.members import Pods
from edl.operator.job_service.store import UnavailableError
from edl.protocol import tagged
from edl.protocol.rendezvous import AGENT_REPORTS, FailureCause, Hello, Refused, ServiceMessage, Stale
from edl.protocol.rounds import Round, RoundChange
from edl.protocol.tagged import UnreadableError

log = logging.getLogger(__name__)

HEARTBEAT = 20.0  # a host that vanished silently is missed after this and half as much again
HELLO = 10.0  # seconds for the first message
RETRY = 1.0
MAX_MESSAGE = 8 * 1024
MAX_NAME = 200
MAX_AGENTS, AGENTS_PER_POD = 100, 4  # an agent that starts anew in its pod is another one until the first is forgotten
NEXT = b"ask the next leader"
FAILED = "the job has failed"


class AgentConnection:
    """One agent's connection. Only the latest message matters: what was not sent yet is replaced."""

    def __init__(self, socket: web.WebSocketResponse, hello: Hello) -> None:
        self.socket, self.hello = socket, hello
        self._latest: ServiceMessage | None = None
        self._news = asyncio.Event()

    def post(self, message: ServiceMessage) -> bool:
        """Queues the message, in place of one that was not sent yet. False if it is the same as the last one."""
        if message == self._latest:
            return False
        self._latest = message
        self._news.set()
        return True

    async def send(self) -> None:
        """Until the connection ends."""
        while not self.socket.closed:
            await self._news.wait()
            self._news.clear()
            await self.socket.send_bytes(tagged.encode(self._latest))


class RendezvousSession:
    def __init__(self, *, clock: Clock, led_since: float) -> None:
        self._clock, self._led_since = clock, led_since
        self._connections: dict[str, AgentConnection] = {}
        self._lobby: Lobby | None = None
        self._record: JobRecord | None = None
        self._state: DurableState | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._scheduled: asyncio.Handle | None = None
        self._forming: asyncio.Task[None] | None = None
        self._closed = False

    def observe(self, record: JobRecord, state: DurableState) -> None:
        changed = record is not self._record
        self._record, self._state = record, state
        if changed and self._lobby is not None:
            self._decide()

    @property
    def hopeless(self) -> RootCause | None:
        """Why no further round will end otherwise than the last ones; None: nothing says so."""
        return self._lobby.repeated.cause if self._lobby is not None else None

    @property
    def change(self) -> RoundChange | None:
        """How the present round came to train in the place of another, as its members say."""
        return self._lobby.change if self._lobby is not None else None

    def close(self) -> None:
        self._closed = True
        if self._timer:
            self._timer.cancel()
        if self._forming:
            self._forming.cancel()
        for connection in self._connections.values():
            _background(connection.socket.close(code=1012, message=NEXT))

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        """Serves one agent until it goes."""
        socket = web.WebSocketResponse(heartbeat=HEARTBEAT, max_msg_size=MAX_MESSAGE)
        await socket.prepare(request)
        try:
            hello = tagged.decode_as((await socket.receive(timeout=HELLO)).data or b"", Hello)
        except (UnreadableError, TypeError, TimeoutError) as error:
            await socket.close(code=1008, message=f"the first message must be a hello: {error}".encode()[:120])
            return socket
        if self._closed:
            await socket.close(code=1012, message=NEXT)
        elif reason := self._refusal(hello):
            log.warning("rendezvous: %s is refused: %s", hello.agent[:MAX_NAME], reason)
            await _refuse(socket, reason)
        else:
            await self._serve_agent(AgentConnection(socket, hello))
        return socket

    async def _serve_agent(self, connection: AgentConnection) -> None:
        lobby, agent = self._register(connection), connection.hello.agent
        sender = asyncio.create_task(connection.send())
        try:
            async for message in connection.socket:
                if (
                    message.type is not WSMsgType.BINARY
                    or self._connections.get(agent) is not connection
                    or lobby is not self._lobby
                ):
                    break
                lobby.report(agent, tagged.decode(message.data, AGENT_REPORTS), self._clock())
                self._decide_soon()
        except UnreadableError as error:
            log.warning("rendezvous: %s said what cannot be read: %s", agent, error)
        finally:
            sender.cancel()
            if self._connections.get(agent) is connection and not self._closed:
                del self._connections[agent]
                lobby.lost(agent, self._clock())
                self._decide_soon()

    def _refusal(self, hello: Hello) -> str:
        assert self._record is not None
        if _failed(self._record):
            return FAILED
        if max(len(hello.agent), len(hello.run)) > MAX_NAME:
            return f"the names of agents and runs have at most {MAX_NAME} characters"
        if self._record.run and hello.run != self._record.run:
            return f"it belongs to {hello.run}, the present attempt is {self._record.run}"
        if self._lobby and self._connections and hello.run != self._lobby.run and not self._record.run:
            return f"it belongs to {hello.run}, agents of {self._lobby.run} are here"
        if not (hello.agent and 1 <= hello.minimum <= hello.maximum):
            return f"it asks for {hello.minimum} to {hello.maximum} agents, which cannot be"
        known = self._lobby.agents if self._lobby and self._lobby.run == hello.run else {}
        if hello.agent not in known and len(known) >= MAX_AGENTS + AGENTS_PER_POD * self._record.pod_count:
            return f"{len(known)} agents are known already, which are too many for this job"
        return ""

    def _register(self, connection: AgentConnection) -> Lobby:
        hello = connection.hello
        if self._lobby is None or self._lobby.run != hello.run:
            self._lobby = self._new_lobby(hello.run)
        old = self._connections.get(hello.agent)
        self._connections[hello.agent] = connection
        if old:
            _background(old.socket.close())
        self._lobby.hello(hello, self._clock())
        self._decide_soon()
        return self._lobby

    def _new_lobby(self, run: str) -> Lobby:
        assert self._state is not None
        for connection in self._connections.values():
            _background(
                _refuse(connection.socket, f"it belongs to {connection.hello.run}, the present attempt is {run}")
            )
        self._connections.clear()
        stored = self._state.committed.round
        return Lobby(run, self._led_since, stored if stored and stored.run == run else None)

    # ---- after every event: decide, make durable, notify

    def _decide_soon(self) -> None:
        """Once for all events that come in together."""
        if self._scheduled is None:
            self._scheduled = asyncio.get_running_loop().call_soon(self._decide)

    def _decide(self) -> None:
        self._scheduled = None
        lobby, record = self._lobby, self._record
        if lobby is None or record is None or self._closed:
            return
        if _failed(record):  # nobody waits for others that will not come; who trains is left alone
            for connection in self._connections.values():
                connection.post(Refused(FAILED))
            return
        now = self._clock()
        lobby.observe(pods_of(record))
        decision = lobby.decide(now)
        if decision.round is not None and (self._forming is None or self._forming.done()):
            self._forming = asyncio.create_task(self._form(lobby, decision.round))
        self._notify(lobby, now)
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if decision.decide_at is not None:
            delay = max(decision.decide_at - now, 0.0) + 0.001
            self._timer = asyncio.get_running_loop().call_later(delay, self._decide)

    def _notify(self, lobby: Lobby, now: float) -> None:
        for agent, message in lobby.messages(self._connections, now).items():
            if self._connections[agent].post(message) and isinstance(message, Stale | FailureCause):
                log.info("rendezvous: %s is told: %s", agent, message.reason)

    async def _form(self, lobby: Lobby, formed: Round) -> None:
        assert self._state is not None
        try:
            await self._state.write(lambda state: states.form(state, formed), at_once=True)
        except (RefusedError, UnavailableError) as error:
            log.warning("round %d was not formed: %s", formed.number, error)
            stored = self._state.committed.round
            if stored and stored.run == lobby.run and stored != lobby.round:
                lobby.adopt(stored, self._clock())
            await asyncio.sleep(RETRY)
        else:
            end = "is over" if formed.over else f"formed of {len(formed.members)}"
            log.info("rendezvous: round %d of %s %s", formed.number, formed.run, end)
            lobby.adopt(formed, self._clock())
        self._forming = None
        self._decide()


def pods_of(record: JobRecord) -> Pods:
    return Pods(
        present=record.pods,
        leaving=frozenset(record.leaving),
        failed=record.failed,
        succeeded=record.succeeded,
        target=record.target,
        bounds=record.bounds,
        fail_fast=record.fail_fast,
    )


def _failed(record: JobRecord) -> bool:
    return record.phase.lower() == "failed"


_background_tasks: set[asyncio.Task[object]] = set()  # the loop itself holds tasks only weakly


async def _refuse(socket: web.WebSocketResponse, reason: str) -> None:
    with contextlib.suppress(ConnectionError):
        await socket.send_bytes(tagged.encode(Refused(reason)))
    await socket.close()


def _background(work: Coroutine[object, object, object]) -> None:
    task = asyncio.create_task(work)
    _background_tasks.add(task)
    task.add_done_callback(_background_tasks.discard)
