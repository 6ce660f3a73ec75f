"""Lines of JSON on a socket between an agent and its workers, both in one pod. Needs the standard library alone."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

LINK = "EDL_WORKER_LINK"
"""Environment variable of workers: the abstract name of their agent's socket, a colon, and what opens it."""
JOINS = "EDL_WORKER_JOINS"
"""Environment variable of workers: 1 if they join others that train already."""


class Lines:
    """One end of a connection. Sends of several threads do not mix; what cannot be sent is dropped: the end shows."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._lock = connection, threading.Lock()

    def send(self, kind: str, **fields: Any) -> None:
        line = json.dumps({"type": kind, **fields}).encode() + b"\n"
        with self._lock, contextlib.suppress(OSError):
            self._connection.sendall(line)

    def received(self) -> Iterator[dict[str, Any]]:
        """Until the other end is gone."""
        with contextlib.suppress(OSError, ValueError), self._connection.makefile("rb") as file:
            for line in file:
                yield json.loads(line)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


def connect(link: str) -> Lines:
    """The worker's end."""
    name, _, _ = link.partition(":")
    connection = socket.socket(socket.AF_UNIX)
    connection.connect("\0" + name)
    return Lines(connection)
