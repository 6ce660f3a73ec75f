"""Messages (JSON, with file descriptors beside them) over a Unix stream socket; the same code on both ends, neither
of which may block.
"""

import json
import os
import socket
from collections import deque
from typing import Any

Message = dict[str, Any]

_LENGTH = 4
_MAX_FDS = 3
_CHUNK = 1 << 16


class Channel:
    """A descriptor that was sent is closed here once it is on its way; one that was received belongs to the caller."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._outgoing: deque[tuple[bytes, list[int]]] = deque()
        self._incoming = bytearray()
        self._received_fds: deque[int] = deque()

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, message: Message, fds: list[int] | None = None) -> bool:
        """Queue a message and send what the socket takes; False when something is left for `flush`."""
        body = json.dumps({**message, "fds": len(fds)} if fds else message).encode()
        self._outgoing.append((len(body).to_bytes(_LENGTH, "big") + body, fds or []))
        return self.flush()

    def flush(self) -> bool:
        while self._outgoing:
            data, fds = self._outgoing[0]
            try:
                sent = socket.send_fds(self._socket, [data], fds) if fds else self._socket.send(data)
            except BlockingIOError:
                return False
            for fd in fds:
                os.close(fd)
            self._outgoing.popleft()
            if sent < len(data):
                self._outgoing.appendleft((data[sent:], []))
        return True

    def receive(self) -> list[tuple[Message, list[int]]]:
        """Every whole message that has arrived. EOFError when the other end is gone."""
        while True:
            try:
                data, fds, _, _ = socket.recv_fds(self._socket, _CHUNK, _MAX_FDS)
            except BlockingIOError:
                break
            except ConnectionResetError:
                data, fds = b"", []
            self._received_fds.extend(fds)
            if not data:
                raise EOFError
            self._incoming += data
            if len(data) < _CHUNK:
                break
        return self._messages()

    def _messages(self) -> list[tuple[Message, list[int]]]:
        messages = []
        while len(self._incoming) >= _LENGTH:
            end = _LENGTH + int.from_bytes(self._incoming[:_LENGTH], "big")
            if len(self._incoming) < end:
                break
            message: Message = json.loads(self._incoming[_LENGTH:end])
            del self._incoming[:end]
            messages.append((message, [self._received_fds.popleft() for _ in range(message.get("fds", 0))]))
        return messages

    def close(self) -> None:
        for _, fds in self._outgoing:
            for fd in fds:
                os.close(fd)
        self._outgoing.clear()
        while self._received_fds:
            os.close(self._received_fds.popleft())
        self._socket.close()
