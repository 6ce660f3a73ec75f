"""An agent's end of the conversation: keeps a connection to whichever leader there is, says how things stand, listens.

Losing the service never stops training: the link reconnects for as long as it lives, first at once, then ever more
patiently, and the standing stays what it was. `Link` runs on an event loop; `LinkThread` gives it one of its own.
"""

import asyncio
import logging
import random
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp
import msgspec

from .messages import Report, Word
from .standing import Standing

log = logging.getLogger(__name__)

HEARTBEAT = 20.0
TIMEOUT = 5.0  # to connect
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 1.0

_word = msgspec.json.Decoder(Word)


@dataclass(frozen=True)
class Address:
    """Where the job's rendezvous is and what opens it."""

    url: str
    token: str
    tls: ssl.SSLContext | None = None


class Link:
    """`changed` is called on the loop after every word, `lock` is held while the standing changes."""

    def __init__(
        self,
        address: Address,
        standing: Standing,
        *,
        changed: Callable[[], None] = lambda: None,
        lock: threading.Condition | None = None,
    ) -> None:
        self.standing = standing
        self.connections = 0
        self._address, self._changed, self._lock = address, changed, lock or threading.Condition()
        self._news = asyncio.Event()
        self._said: Report | None = None

    def say(self) -> None:
        """The standing's report is a new one."""
        self._news.set()

    @property
    def heard(self) -> bool:
        """Whether the present report went out on the present connection."""
        return self._said is self.standing.report

    async def run(self) -> None:
        """Until cancelled, or refused."""
        pause = FIRST_PAUSE
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None, sock_connect=TIMEOUT)) as session:
            while not self.standing.refused:
                started = time.monotonic()
                try:
                    await self._converse(session)
                except (aiohttp.ClientError, OSError, TimeoutError) as error:
                    log.log(logging.WARNING if pause >= 0.5 else logging.DEBUG, "rendezvous: no connection: %s", error)
                except msgspec.DecodeError as error:
                    log.warning("rendezvous: cannot read what the job service said: %s", error)
                self._said = None
                if time.monotonic() - started > LONGEST_PAUSE:
                    pause = FIRST_PAUSE
                await asyncio.sleep(pause * random.uniform(0.5, 1.0))
                pause = min(pause * 2, LONGEST_PAUSE)

    async def _converse(self, session: aiohttp.ClientSession) -> None:
        headers = {"Authorization": f"Bearer {self._address.token}"}
        tls = self._address.tls if self._address.tls is not None else True
        async with session.ws_connect(self._address.url, headers=headers, heartbeat=HEARTBEAT, ssl=tls) as socket:
            self.connections += 1
            await socket.send_bytes(msgspec.json.encode(self.standing.hello))
            self._news.set()
            speaker = asyncio.create_task(self._speak(socket))
            try:
                async for message in socket:
                    if message.type is aiohttp.WSMsgType.BINARY:
                        self._hear(_word.decode(message.data))
            finally:
                speaker.cancel()

    async def _speak(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            report = self.standing.report
            if report is not None:
                await socket.send_bytes(msgspec.json.encode(report))
                with self._lock:
                    self._said = report
                    self._lock.notify_all()

    def _hear(self, word: Word) -> None:
        with self._lock:
            before = self.standing.report
            self.standing.hear(word)
            if self.standing.report is not before:
                self._news.set()
            self._lock.notify_all()
        self._changed()


class LinkThread:
    """A link on a thread of its own, for programs that have no event loop. Calls are for one other thread."""

    def __init__(self, address: Address, standing: Standing) -> None:
        self.standing = standing
        self._condition = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._link = Link(address, standing, lock=self._condition)
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="edl-rendezvous", daemon=True)
        self._thread.start()

    def act(self, change: Callable[[Standing], None]) -> None:
        """Changes what this agent says of itself, and says it."""
        with self._condition:
            change(self.standing)
            self._condition.notify_all()
        self._loop.call_soon_threadsafe(self._link.say)

    def until(self, holds: Callable[[Standing], bool], timeout: float | None = None) -> bool:
        """Whether it holds, waiting for it if need be. Wakes now and then, so that signals are heard."""
        end = None if timeout is None else time.monotonic() + timeout
        with self._condition:
            while not holds(self.standing):
                left = 0.5 if end is None else min(0.5, end - time.monotonic())
                if left <= 0:
                    return False
                self._condition.wait(left)
            return True

    def flush(self, timeout: float) -> bool:
        """Whether the last report went out."""
        return self.until(lambda _: self._link.heard, timeout)

    def close(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(lambda: self._task and self._task.cancel())
            self._thread.join(timeout=5.0)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._task = self._loop.create_task(self._link.run())
        try:
            self._loop.run_until_complete(asyncio.wait({self._task}))
        finally:
            self._loop.close()
