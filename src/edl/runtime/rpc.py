"""Remote calls over `wire`: a server with one thread per connection, and a client.

Few connections may be open that have not proved that they hold the job's token: of too many the oldest goes, see
`edl.serving.unproven`.
A message is a msgspec Struct; its tag is the name of the call. A server refuses with a stable code and a message
(`RefusalError`); the client raises the same. Nothing is retried here: only the caller knows whether that is safe.
"""

import contextlib
import errno
import logging
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import msgspec

from edl.runtime import wire
from edl.runtime.wire import Buffer, Channel
from edl.serving.scarcity import OUT_OF_RESOURCES, SPARE, Notice
from edl.serving.unproven import Unproven

log = logging.getLogger(__name__)

_OK, _REFUSED = 0, 1
CONNECTIONS = 8192
UNPROVEN = 256
SHED = 16  # connections that are closed at once when descriptors run out
GRACE = 1.0  # seconds that a connection has in any case to prove itself
RETRY = 0.1

_too_many = Notice(log, "%d connections are open, the most that there may be: others are refused")
_scarce = Notice(log, "no file descriptor, memory or thread is left (%s): connections are refused")
_refused = Notice(log, "a connection was refused: %s")

R = TypeVar("R")


class RefusalError(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class Nothing(msgspec.Struct, frozen=True):
    """An empty answer: the call was carried out."""


class Reply(msgspec.Struct):
    """The answer of a handler: a message and the bytes that follow it."""

    message: Any = Nothing()
    buffers: Sequence[Buffer] = ()


class Session(Protocol):
    """The server's side of one connection."""

    def handle(self, message: Any, payload: memoryview) -> Reply: ...

    def closed(self) -> None: ...


class SessionFactory(Protocol):
    """A service: the type of its messages, and a session for every connection."""

    @property
    def messages(self) -> Any: ...

    def connected(self) -> Session: ...


class _Refusal(msgspec.Struct):
    code: str
    message: str = msgspec.field(name="words")


def listen(host: str, port: int) -> socket.socket:
    """Listens on the given port if it is free, else on any: others learn the address from the job service."""
    found = listen_if_free(host, port) or listen_if_free(host, 0)
    assert found is not None, "there is always another port"
    return found


def listen_if_free(host: str, port: int) -> socket.socket | None:
    """Listens on exactly this port; None if another process does."""
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=1024
        )
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        log.warning("port %d is taken", port)
        return None


class Server:
    """Serves on a listener, which it owns and closes."""

    def __init__(self, sessions: SessionFactory, token: str, listener: socket.socket) -> None:
        self._sessions, self._token, self._listener = sessions, token, listener
        self._decoder = msgspec.msgpack.Decoder(sessions.messages)
        self._encoder = msgspec.msgpack.Encoder()
        self._changed = threading.Condition()  # guards the two below
        self._open: set[Channel] = set()
        self._unproven: Unproven[socket.socket] = Unproven()
        self._stopping = False

    def start(self) -> None:
        SPARE.open()
        threading.Thread(target=self._accept, name="accept", daemon=True).start()

    def close(self) -> None:
        """Stops listening and closes every connection; calls in progress see a lost client."""
        self._stopping = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept(), which close() alone does not
        self._listener.close()
        with self._changed:
            channels = list(self._open)
            self._changed.notify_all()
        for channel in channels:
            channel.close()

    def _accept(self) -> None:
        while not self._stopping:
            self._make_room()
            try:
                sock, peer = self._listener.accept()
            except OSError as error:
                if self._stopping:
                    return
                self._exhausted(error)
                continue
            with self._changed:
                full = len(self._open) >= CONNECTIONS
                if not full:
                    self._unproven.add(sock, str(peer[0]), time.monotonic())
            if full:
                _too_many(CONNECTIONS)
                sock.close()
            else:
                self._serve_aside(sock)

    def _serve_aside(self, sock: socket.socket) -> None:
        try:
            threading.Thread(target=self._serve, args=(sock,), name="connection", daemon=True).start()
        except RuntimeError as error:  # no memory for another thread, or too many of them
            _scarce(error)
            self._forget(sock)
            sock.close()

    def _make_room(self) -> None:
        """Until one more connection may be unproven: ends one that has had its time, or waits for it."""
        with self._changed:
            while len(self._unproven) >= UNPROVEN and not self._stopping:
                if not self._shed():
                    self._changed.wait(GRACE / 4)

    def _shed(self) -> bool:
        """Ends the connection that can be missed most easily. False if there is none."""
        with self._changed:
            victim = self._unproven.victim(before=time.monotonic() - GRACE)
            if victim is not None:
                self._unproven.discard(victim)
                _end(victim)
            return victim is not None

    def _exhausted(self, error: OSError) -> None:
        """Frees descriptors: those of connections which have proved nothing, or else the one that is kept for this."""
        if error.errno not in OUT_OF_RESOURCES:
            log.warning("accept failed: %s", error)
            time.sleep(RETRY)
            return
        _scarce(error.strerror)
        if not sum(self._shed() for _ in range(SHED)):
            with SPARE.used(), contextlib.suppress(OSError):
                self._listener.accept()[0].close()
        time.sleep(RETRY)

    def _forget(self, sock: socket.socket) -> None:
        with self._changed:
            self._unproven.discard(sock)
            self._changed.notify_all()

    def _serve(self, sock: socket.socket) -> None:
        try:
            channel = wire.accept(sock, self._token)
        except OSError as error:
            _refused(error)
            sock.close()
            return
        finally:
            self._forget(sock)
        with self._changed:
            self._open.add(channel)
        session = self._sessions.connected()
        try:
            while not self._stopping:
                self._answer(channel, session)
        except OSError:
            pass
        except Exception:
            log.exception("a call failed; its connection is closed")
        finally:
            with self._changed:
                self._open.discard(channel)
            channel.close()
            session.closed()

    def _answer(self, channel: Channel, session: Session) -> None:
        _, header, size = channel.receive()
        payload = channel.take(size)
        try:
            reply = session.handle(self._decoder.decode(header), payload)
        except RefusalError as refusal:
            channel.send(_REFUSED, self._encoder.encode(_Refusal(refusal.code, refusal.message)))
        except msgspec.DecodeError as error:
            channel.send(_REFUSED, self._encoder.encode(_Refusal("bad-message", str(error))))
        else:
            channel.send(_OK, self._encoder.encode(reply.message), reply.buffers)


def _end(sock: socket.socket) -> None:
    """Wakes the thread that waits for its handshake, which closes it."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


class Client:
    """One connection to one server. After an OSError the outcome of the call is unknown: open another client."""

    def __init__(self, address: str, token: str, *, timeout: float | None = None) -> None:
        host, port = wire.split_address(address)
        self.address = address
        self._channel = wire.connect(host, port, token)
        self._channel.timeout(timeout)

    def call(self, message: Any, answer: type[R], buffers: Sequence[Buffer] = ()) -> R:
        self.send(message, buffers)
        reply, size = self.receive(answer)
        if size:
            self._channel.take(size)
        return reply

    def send(self, message: Any, buffers: Sequence[Buffer] = ()) -> None:
        self._channel.send(_OK, msgspec.msgpack.encode(message), buffers)

    def receive(self, answer: type[R]) -> tuple[R, int]:
        """The answer to the oldest unanswered `send`, and the bytes that must now be read with `take` or `into`."""
        kind, header, size = self._channel.receive()
        if kind == _OK:
            return msgspec.msgpack.decode(header, type=answer), size
        refusal = msgspec.msgpack.decode(header, type=_Refusal)
        raise RefusalError(refusal.code, refusal.message)

    def take(self, size: int) -> memoryview:
        return self._channel.take(size)

    def into(self, view: memoryview) -> None:
        self._channel.take_into(view)

    def timeout(self, seconds: float | None) -> None:
        self._channel.timeout(seconds)

    def close(self) -> None:
        self._channel.close()
