"""Event loop of the supervisor: descriptors and timers, as little of asyncio as it needs, to stay small."""

import heapq
import os
import select
import signal
import time
from collections.abc import Callable
from itertools import count

Action = Callable[[], None]


class Loop:
    def __init__(self) -> None:
        self._poll = select.epoll()
        self._readers: dict[int, Action] = {}
        self._writers: dict[int, Action] = {}
        self._timers: list[tuple[float, int, Action]] = []
        self._order = count()

    def on_readable(self, fd: int, action: Action) -> None:
        self._readers[fd] = action
        self._poll.register(fd, select.EPOLLIN)

    def on_writable(self, fd: int, action: Action) -> None:
        """Once, for a descriptor that is also read."""
        self._writers[fd] = action
        self._poll.modify(fd, select.EPOLLIN | select.EPOLLOUT)

    def forget(self, fd: int) -> None:
        if self._readers.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def on_signal(self, number: int, action: Action) -> None:
        """Run in the loop, not in the middle of something; signals that come together run it once."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(number, lambda *_: None)

        def take() -> None:
            os.read(reader, 4096)
            action()

        self.on_readable(reader, take)

    def later(self, seconds: float, action: Action) -> None:
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._order), action))

    def run(self) -> None:
        """Until an action raises."""
        while True:
            wait = max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else -1
            for fd, event in self._poll.poll(wait):
                self._dispatch(fd, event)
            while self._timers and self._timers[0][0] <= time.monotonic():
                heapq.heappop(self._timers)[2]()

    def _dispatch(self, fd: int, event: int) -> None:
        if event & select.EPOLLOUT and fd in self._writers:
            self._poll.modify(fd, select.EPOLLIN)
            self._writers.pop(fd)()
        if event & ~select.EPOLLOUT and fd in self._readers:
            self._readers[fd]()
