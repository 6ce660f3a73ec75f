"""An agent's connection to the rendezvous: finds whichever operator leads, sends the agent's report, takes messages.

Losing the service never stops training: the connection is made again for as long as the agent lives, first at once,
then with growing pauses, and the agent's state stays what it was. `RendezvousConnection` runs on an event loop;
`ConnectionThread` gives it one of its own. Needs the standard library alone.
"""

import asyncio
import logging
import random
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from edl.protocol import tagged
from edl.protocol.rendezvous import SERVICE_MESSAGES, AgentReport, ServiceMessage
from edl.protocol.tagged import UnreadableError
from edl.runtime.torch import websocket
from edl.runtime.torch.agent_state import AgentState
from edl.runtime.torch.websocket import WebSocket, WebSocketError

log = logging.getLogger(__name__)

HEARTBEAT = 20.0
TIMEOUT = 5.0  # to connect
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 1.0


@dataclass(frozen=True)
class Address:
    """Where the job's rendezvous is and what opens it."""

    url: str
    token: str
    tls: ssl.SSLContext | None = None


class RendezvousConnection:
    """`changed` is called on the loop after every message; `lock` is held while the state changes."""

    def __init__(
        self,
        address: Address,
        state: AgentState,
        *,
        changed: Callable[[], None] = lambda: None,
        lock: threading.Condition | None = None,
    ) -> None:
        self.state = state
        self.connections = 0
        self._address, self._changed, self._lock = address, changed, lock or threading.Condition()
        self._news = asyncio.Event()
        self._sent: AgentReport | None = None

    def report_changed(self) -> None:
        """Has the state's new report sent."""
        self._news.set()

    @property
    def delivered(self) -> bool:
        """Whether the present report went out on the present connection."""
        return self._sent is self.state.report

    async def run(self) -> None:
        """Until cancelled, or refused."""
        pause = FIRST_PAUSE
        while not self.state.refused:
            started = time.monotonic()
            try:
                await self._connect_once()
            except OSError as error:
                log.log(logging.WARNING if pause >= 0.5 else logging.DEBUG, "rendezvous: no connection: %s", error)
            except UnreadableError as error:
                log.warning("rendezvous: cannot read what the job service said: %s", error)
            self._sent = None
            if time.monotonic() - started > LONGEST_PAUSE:
                pause = FIRST_PAUSE
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _connect_once(self) -> None:
        socket = await self._open()
        helpers: list[asyncio.Task[None]] = []
        try:
            self.connections += 1
            await socket.send(tagged.encode(self.state.hello))
            self._news.set()
            helpers += [
                asyncio.create_task(work) for work in (self._send_reports(socket), socket.keep_alive(HEARTBEAT))
            ]
            async for message in socket.messages():
                self._receive(tagged.decode(message, SERVICE_MESSAGES))
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
            socket.abort()

    async def _open(self) -> WebSocket:
        opening = asyncio.create_task(websocket.connect(self._address.url, self._address.token, self._address.tls))
        try:
            done, _ = await asyncio.wait({opening}, timeout=TIMEOUT)
            if not done:
                raise WebSocketError(f"no answer in {TIMEOUT:g} s")
            return opening.result()
        finally:
            opening.cancel()

    async def _send_reports(self, socket: WebSocket) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            report = self.state.report
            if report is not None:
                await socket.send(tagged.encode(report))
                with self._lock:
                    self._sent = report
                    self._lock.notify_all()

    def _receive(self, message: ServiceMessage) -> None:
        with self._lock:
            before = self.state.report
            self.state.receive(message)
            if self.state.report is not before:
                self._news.set()
            self._lock.notify_all()
        self._changed()


class ConnectionThread:
    """A connection on a thread of its own, for programs that have no event loop. Calls are for one other thread."""

    def __init__(self, address: Address, state: AgentState) -> None:
        self.state = state
        self._condition = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._connection = RendezvousConnection(address, state, lock=self._condition)
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="edl-rendezvous", daemon=True)
        self._thread.start()

    def act(self, change: Callable[[AgentState], None]) -> None:
        """Changes this agent's own report, and sends it."""
        with self._condition:
            change(self.state)
            self._condition.notify_all()
        self._loop.call_soon_threadsafe(self._connection.report_changed)

    def wake(self) -> None:
        """Something else changed that waiters may wait for."""
        with self._condition:
            self._condition.notify_all()

    def until(self, holds: Callable[[AgentState], bool], timeout: float | None = None) -> bool:
        """Whether it holds, waiting for it if need be. Wakes now and then, so that signals are delivered."""
        end = None if timeout is None else time.monotonic() + timeout
        with self._condition:
            while not holds(self.state):
                left = 0.5 if end is None else min(0.5, end - time.monotonic())
                if left <= 0:
                    return False
                self._condition.wait(left)
            return True

    def flush(self, timeout: float) -> bool:
        """Whether the last report went out."""
        return self.until(lambda _: self._connection.delivered, timeout)

    def close(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(lambda: self._task and self._task.cancel())
            self._thread.join(timeout=5.0)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._task = self._loop.create_task(self._connection.run())
        try:
            self._loop.run_until_complete(asyncio.wait({self._task}))
        finally:
            self._loop.close()
