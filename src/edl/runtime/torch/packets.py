"""Packets of JSON with open files beside them, on a socket between an agent and its workers. Standard library alone."""

import contextlib
import json
import os
import select
import socket
import threading
from typing import Any

LONGEST = 1 << 16
Packet = dict[str, Any]


class Packets:
    """One end of a connection. A packet comes whole or not at all, also from a sender that was killed since."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._lock = connection, threading.Lock()

    def send(self, kind: str, *, file: int | None = None, **fields: Any) -> None:
        """What cannot be sent is dropped: the end of the connection shows."""
        packet = json.dumps({"type": kind, **fields}).encode()
        with self._lock, contextlib.suppress(OSError):
            socket.send_fds(self._connection, [packet], [] if file is None else [file])

    def receive(self, timeout: float | None = None) -> tuple[Packet, int | None] | None:
        """The next packet and the file that came along, which is the caller's to close; None at the end. Raises
        TimeoutError."""
        try:
            if timeout is not None and not self._readable(timeout):
                raise TimeoutError
            packet, files, _, _ = socket.recv_fds(self._connection, LONGEST, 1)
        except TimeoutError:
            raise
        except (OSError, ValueError):  # closed
            return None
        try:
            found = json.loads(packet)
        except ValueError:  # nothing, at the end
            for file in files:
                os.close(file)
            return None
        return found, files[0] if files else None

    def _readable(self, timeout: float) -> bool:
        """Not by the socket's own timeout, which would count for what other threads send."""
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        return bool(poll.poll(timeout * 1000))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def abandon(self) -> None:
        """Of a forked process: it goes on for the other one."""
        self._connection.close()


def listen(name: str) -> socket.socket:
    """Under an abstract name, which ends with its process."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind("\0" + name)
    listener.listen(64)
    return listener


def connect(name: str) -> Packets:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.connect("\0" + name)
    except OSError:
        connection.close()
        raise
    return Packets(connection)
