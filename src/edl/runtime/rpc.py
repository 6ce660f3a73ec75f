"""Calls over the wire: a server with one thread per connection, and a client that reports every break.

A message is a msgspec Struct; its tag is the name of the call. A server refuses in words with a stable code
(`RefusalError`); a client raises the same on its side. Whether to try again is for the caller to know.
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

from . import wire
from .wire import Buffer, Channel

log = logging.getLogger(__name__)

_OK, _REFUSED = 0, 1

R = TypeVar("R")


class RefusalError(Exception):
    def __init__(self, code: str, words: str) -> None:
        super().__init__(words)
        self.code, self.words = code, words


class Nothing(msgspec.Struct, frozen=True):
    """An answer that says only that the call was carried out."""


class Reply(msgspec.Struct):
    """What a handler answers: a message and the bytes that follow it."""

    message: Any = Nothing()
    buffers: Sequence[Buffer] = ()


class Session(Protocol):
    """One connection as its server sees it."""

    def handle(self, message: Any, payload: memoryview) -> Reply: ...

    def closed(self) -> None: ...


class Sessions(Protocol):
    """What is served: the messages understood, and a session for every connection."""

    @property
    def messages(self) -> Any: ...

    def connected(self) -> Session: ...


class _Refusal(msgspec.Struct):
    code: str
    words: str


def listen(host: str, port: int) -> socket.socket:
    """On the port that is wished for if it is free, else on any: the job service tells the others where we are."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        log.warning("port %d is taken, using another", port)
        return socket.create_server((host, 0), family=family, backlog=1024)


class Server:
    """Answers on a listener that may have been made long before; it is the server's to close."""

    def __init__(self, sessions: Sessions, token: str, listener: socket.socket) -> None:
        self._sessions, self._token, self._listener = sessions, token, listener
        self._decoder = msgspec.msgpack.Decoder(sessions.messages)
        self._encoder = msgspec.msgpack.Encoder()
        self._open: set[Channel] = set()
        self._lock = threading.Lock()
        self._stopping = False

    def start(self) -> None:
        threading.Thread(target=self._accept, name="accept", daemon=True).start()

    def close(self) -> None:
        """Stops listening and breaks every connection; calls in progress see it as a lost client."""
        self._stopping = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept(), which close() alone does not
        self._listener.close()
        with self._lock:
            channels = list(self._open)
        for channel in channels:
            channel.close()

    def _accept(self) -> None:
        while not self._stopping:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                if self._stopping:
                    return
                log.exception("accept failed")
                time.sleep(0.1)  # most likely out of file descriptors
                continue
            threading.Thread(target=self._serve, args=(sock,), name="connection", daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        try:
            channel = wire.accept(sock, self._token)
        except OSError as error:
            log.warning("connection refused: %s", error)
            sock.close()
            return
        with self._lock:
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
            with self._lock:
                self._open.discard(channel)
            channel.close()
            session.closed()

    def _answer(self, channel: Channel, session: Session) -> None:
        _, header, size = channel.receive()
        payload = channel.take(size)
        try:
            reply = session.handle(self._decoder.decode(header), payload)
        except RefusalError as refusal:
            channel.send(_REFUSED, self._encoder.encode(_Refusal(refusal.code, refusal.words)))
        except msgspec.DecodeError as error:
            channel.send(_REFUSED, self._encoder.encode(_Refusal("bad-message", str(error))))
        else:
            channel.send(_OK, self._encoder.encode(reply.message), reply.buffers)


class Client:
    """One connection to one server. Any OSError from a call means that its outcome is unknown: open another client."""

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
        """The answer to the oldest unanswered `send`, and how many bytes must now be taken with `take` or `into`."""
        kind, header, size = self._channel.receive()
        if kind == _OK:
            return msgspec.msgpack.decode(header, type=answer), size
        refusal = msgspec.msgpack.decode(header, type=_Refusal)
        raise RefusalError(refusal.code, refusal.words)

    def take(self, size: int) -> memoryview:
        return self._channel.take(size)

    def into(self, view: memoryview) -> None:
        self._channel.take_into(view)

    def timeout(self, seconds: float | None) -> None:
        self._channel.timeout(seconds)

    def close(self) -> None:
        self._channel.close()
