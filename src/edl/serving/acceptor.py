"""Accepts connections from listening sockets in an event loop, and goes on when the process runs out of descriptors.

asyncio's own servers then try again every second and log each time. This one frees a descriptor that it keeps for the
purpose, takes the next connection with it and closes that one, so that clients learn at once that they are too many.
"""

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Callable, Sequence
from typing import Any

from edl.serving.scarcity import OUT_OF_RESOURCES, SPARE, Notice

log = logging.getLogger(__name__)

BACKLOG = 1024
BATCH = 64  # connections that are accepted before anything else is done
RETRY = 0.1  # seconds until accepting is tried again
SHED = 16  # connections that are closed at once when descriptors run out

Accepted = Callable[[socket.socket, str], None]
Shed = Callable[[], bool]
Wait = Callable[[], float]

_no_descriptors = Notice(log, "no file descriptor is left (%s): connections are refused; raise the limit (ulimit -n)")


class Acceptor(asyncio.AbstractServer):
    """`accepted` takes each connection with the address of its peer. `shed` closes one that can be missed, if any;
    `wait` is asked before each for the seconds that it must wait in the system's queue."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        accepted: Accepted,
        *,
        shed: Shed = lambda: False,
        wait: Wait = lambda: 0.0,
    ) -> None:
        self.sockets = tuple(sockets)
        self._accepted, self._shed, self._wait = accepted, shed, wait
        self._loop = asyncio.get_running_loop()
        self._retry: asyncio.TimerHandle | None = None
        self._open = True
        SPARE.open()
        self.resume()

    def close(self) -> None:
        self.pause()
        self._open = False
        for one in self.sockets:
            one.close()

    async def wait_closed(self) -> None: ...

    async def start_serving(self) -> None:
        self.resume()

    async def serve_forever(self) -> None:
        await self._loop.create_future()

    def is_serving(self) -> bool:
        return self._open

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def pause(self, seconds: float | None = None) -> None:
        """Accepts nothing for so long, or until `resume`; who connects meanwhile waits in the system's queue."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._open:
            for one in self.sockets:
                self._loop.remove_reader(one)
            if seconds is not None:
                self._retry = self._loop.call_later(seconds, self.resume)

    def resume(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._open:
            for one in self.sockets:
                self._loop.add_reader(one, self._accept, one)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(BATCH):
            if (seconds := self._wait()) > 0:
                self.pause(seconds)
                return
            try:
                connection, peer = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in OUT_OF_RESOURCES:
                    raise
                _no_descriptors(error.strerror)
                if not sum(self._shed() for _ in range(SHED)):
                    with SPARE.used(), contextlib.suppress(OSError):
                        listener.accept()[0].close()
                self.pause(RETRY)
                return
            connection.setblocking(False)
            self._accepted(connection, _host(peer))


async def bind(host: str, port: int) -> list[socket.socket]:
    """Listening sockets on every address of the host; no host means everywhere. OSError if there is none to be had."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    failure: OSError | None = None
    for family, _, _, _, address in dict.fromkeys(found):
        try:
            sockets.append(_listen(family, address))
        except OSError as error:
            failure = error
    if failure is not None and not (sockets and failure.errno in _NO_SUCH_ADDRESS):
        for one in sockets:
            one.close()
        raise failure
    return sockets


_NO_SUCH_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)  # a machine without IPv6 may still have names for it


def _listen(family: int, address: Any) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def _host(peer: Any) -> str:
    return str(peer[0]) if isinstance(peer, tuple) else ""
