"""The rendezvous of one job under one leader: connections to its agents, rounds that are told once they are durable.

An agent keeps one WebSocket open; that it broke is the first sign of the agent's death. All decisions are the lobby's.
"""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine

import msgspec
from aiohttp import WSMsgType, web

from edl.runtime.rendezvous.lobby import Lobby, Pods
from edl.runtime.rendezvous.messages import Hello, Refused, Report, Stale, Verdict, Word
from edl.runtime.rendezvous.rounds import Round

from . import state as states
from .durable import Clock, DurableState
from .record import JobRecord
from .state import RefusedError
from .store import UnavailableError

log = logging.getLogger(__name__)

HEARTBEAT = 20.0  # a host that vanished without a word is missed after this and half as much again
HELLO = 10.0  # seconds for the first message
RETRY = 1.0
NEXT = b"ask the next leader"
FAILED = "the job has failed"

_hello = msgspec.json.Decoder(Hello)
_report = msgspec.json.Decoder(Report)


class Link:
    """One agent's connection. Only the latest word matters: what was not sent yet is replaced."""

    def __init__(self, socket: web.WebSocketResponse, hello: Hello) -> None:
        self.socket, self.hello = socket, hello
        self._latest: Word | None = None
        self._news = asyncio.Event()

    def say(self, word: Word) -> bool:
        """Whether this is something new."""
        if word == self._latest:
            return False
        self._latest = word
        self._news.set()
        return True

    async def send(self) -> None:
        """Until the connection ends."""
        while not self.socket.closed:
            await self._news.wait()
            self._news.clear()
            await self.socket.send_bytes(msgspec.json.encode(self._latest))


class Meeting:
    def __init__(self, *, clock: Clock, led_since: float) -> None:
        self._clock, self._led_since = clock, led_since
        self._links: dict[str, Link] = {}
        self._lobby: Lobby | None = None
        self._record: JobRecord | None = None
        self._state: DurableState | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._soon: asyncio.Handle | None = None
        self._forming: asyncio.Task[None] | None = None
        self._closed = False

    def observe(self, record: JobRecord, state: DurableState) -> None:
        changed = record is not self._record
        self._record, self._state = record, state
        if changed and self._lobby is not None:
            self._look()

    def close(self) -> None:
        self._closed = True
        if self._timer:
            self._timer.cancel()
        if self._forming:
            self._forming.cancel()
        for link in self._links.values():
            _background(link.socket.close(code=1012, message=NEXT))

    async def attend(self, request: web.Request) -> web.WebSocketResponse:
        """Serves one agent until it goes."""
        socket = web.WebSocketResponse(heartbeat=HEARTBEAT, max_msg_size=64 * 1024)
        await socket.prepare(request)
        try:
            hello = _hello.decode((await socket.receive(timeout=HELLO)).data or b"")
        except (msgspec.DecodeError, TypeError, TimeoutError) as error:
            await socket.close(code=1008, message=f"the first message must be a hello: {error}".encode()[:120])
            return socket
        if self._closed:
            await socket.close(code=1012, message=NEXT)
        elif reason := self._unwelcome(hello):
            log.warning("rendezvous: %s is refused: %s", hello.agent, reason)
            await _turn_away(socket, reason)
        else:
            await self._serve(Link(socket, hello))
        return socket

    async def _serve(self, link: Link) -> None:
        lobby, agent = self._enter(link), link.hello.agent
        sender = asyncio.create_task(link.send())
        try:
            async for message in link.socket:
                if (
                    message.type is not WSMsgType.BINARY
                    or self._links.get(agent) is not link
                    or lobby is not self._lobby
                ):
                    break
                lobby.report(agent, _report.decode(message.data), self._clock())
                self._look_soon()
        except msgspec.DecodeError as error:
            log.warning("rendezvous: %s said what cannot be read: %s", agent, error)
        finally:
            sender.cancel()
            if self._links.get(agent) is link and not self._closed:
                del self._links[agent]
                lobby.lost(agent, self._clock())
                self._look_soon()

    def _unwelcome(self, hello: Hello) -> str:
        assert self._record is not None
        if _failed(self._record):
            return FAILED
        if self._record.run and hello.run != self._record.run:
            return f"it belongs to {hello.run}, the present attempt is {self._record.run}"
        if self._lobby and self._links and hello.run != self._lobby.run and not self._record.run:
            return f"it belongs to {hello.run}, agents of {self._lobby.run} are here"
        if not (hello.agent and 1 <= hello.minimum <= hello.maximum):
            return f"it asks for {hello.minimum} to {hello.maximum} agents, which cannot be"
        return ""

    def _enter(self, link: Link) -> Lobby:
        hello = link.hello
        if self._lobby is None or self._lobby.run != hello.run:
            self._lobby = self._open(hello.run)
        old = self._links.get(hello.agent)
        self._links[hello.agent] = link
        if old:
            _background(old.socket.close())
        self._lobby.hello(hello, self._clock())
        self._look_soon()
        return self._lobby

    def _open(self, run: str) -> Lobby:
        assert self._state is not None
        for link in self._links.values():
            _background(_turn_away(link.socket, f"it belongs to {link.hello.run}, the present attempt is {run}"))
        self._links.clear()
        stored = self._state.committed.round
        return Lobby(run, self._led_since, stored if stored and stored.run == run else None)

    # ---- after anything that may matter: decide, make durable, tell

    def _look_soon(self) -> None:
        """Once for all that comes in together."""
        if self._soon is None:
            self._soon = asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        self._soon = None
        lobby, record = self._lobby, self._record
        if lobby is None or record is None or self._closed:
            return
        if _failed(record):  # nobody waits for others that will not come; who trains is left alone
            for link in self._links.values():
                link.say(Refused(FAILED))
            return
        now = self._clock()
        lobby.observe(Pods(record.pods, frozenset(record.leaving), record.target, record.bounds))
        plan = lobby.decide(now)
        if plan.round is not None and (self._forming is None or self._forming.done()):
            self._forming = asyncio.create_task(self._form(lobby, plan.round))
        self._tell(lobby, now)
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if plan.look_at is not None:
            self._timer = asyncio.get_running_loop().call_later(max(plan.look_at - now, 0.0) + 0.001, self._look)

    def _tell(self, lobby: Lobby, now: float) -> None:
        for agent, word in lobby.words(self._links, now).items():
            if self._links[agent].say(word) and isinstance(word, Stale | Verdict):
                log.info("rendezvous: %s is told: %s", agent, word.reason)

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
        self._look()


def _failed(record: JobRecord) -> bool:
    return record.phase.lower() == "failed"


_kept: set[asyncio.Task[object]] = set()  # the loop itself holds tasks only weakly


async def _turn_away(socket: web.WebSocketResponse, reason: str) -> None:
    with contextlib.suppress(ConnectionError):
        await socket.send_bytes(msgspec.json.encode(Refused(reason)))
    await socket.close()


def _background(work: Coroutine[object, object, object]) -> None:
    task = asyncio.create_task(work)
    _kept.add(task)
    task.add_done_callback(_kept.discard)
