"""Frames between trainers, master and parameter servers: a small msgpack header, then raw bytes, over TCP.

Both ends prove that they hold the job's token before the first frame. Frames are neither encrypted nor signed: the pod
network is trusted. Received data is never executed.
"""

import contextlib
import hmac
import os
import socket
import struct
import time
from collections.abc import Sequence

Buffer = bytes | bytearray | memoryview

MAX_HEADER = 1 << 20
MAX_PAYLOAD = 1 << 32
HANDSHAKE_TIMEOUT = 10.0

_FRAME = struct.Struct("!BIQ")  # kind, bytes of header, bytes of payload
_MAGIC = b"EDL1"
_NONCE = 16
_MAC = 32
_JOIN_BELOW = 1 << 16  # smaller frames leave in one write, larger ones are not copied


class WireError(ConnectionError):
    """The peer is not authenticated or does not speak this protocol; the connection is unusable."""


class Channel:
    """One connection after its handshake. For one thread only, but any may close it."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._scratch = bytearray()

    def send(self, kind: int, header: bytes, buffers: Sequence[Buffer] = ()) -> None:
        views = [memoryview(buffer).cast("B") for buffer in buffers if len(buffer)]
        total = sum(len(view) for view in views)
        head = _FRAME.pack(kind, len(header), total) + header
        if total < _JOIN_BELOW:
            self._sock.sendall(b"".join([head, *views]))
            return
        self._sock.sendall(head)
        for view in views:
            self._sock.sendall(view)

    def receive(self) -> tuple[int, bytes, int]:
        """Kind and header of the next frame, and the bytes of payload that the caller must now take."""
        kind, header_size, payload_size = _FRAME.unpack(self._exactly(_FRAME.size))
        if header_size > MAX_HEADER or payload_size > MAX_PAYLOAD:
            raise WireError(f"a frame of {header_size} + {payload_size} bytes is too large")
        return kind, self._exactly(header_size), payload_size

    def take(self, size: int) -> memoryview:
        """The payload in a buffer that the next call overwrites."""
        if len(self._scratch) < size:
            self._scratch = bytearray(size)
        view = memoryview(self._scratch)[:size]
        self.take_into(view)
        return view

    def take_into(self, view: memoryview) -> None:
        """Reads a part of the payload into `view`."""
        while len(view):
            received = self._sock.recv_into(view, min(len(view), 1 << 22))
            if not received:
                raise ConnectionError("the other end closed the connection")
            view = view[received:]

    def timeout(self, seconds: float | None) -> None:
        self._sock.settimeout(seconds)

    def close(self) -> None:
        """Wakes a thread that waits on this channel, then closes it."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def _exactly(self, size: int) -> bytes:
        data = bytearray(size)
        self.take_into(memoryview(data))
        return bytes(data)


def accept(sock: socket.socket, token: str) -> Channel:
    """The server's half of the handshake. WireError: the client does not hold the token."""
    _tune(sock)
    sock.settimeout(HANDSHAKE_TIMEOUT)
    channel, nonce = Channel(sock), os.urandom(_NONCE)
    sock.sendall(_MAGIC + nonce)
    answer = _in_time(sock, _NONCE + _MAC, HANDSHAKE_TIMEOUT)
    theirs, proof = answer[:_NONCE], answer[_NONCE:]
    if not hmac.compare_digest(proof, _proof(token, b"client", nonce, theirs)):
        raise WireError("the client does not hold this job's token")
    sock.sendall(_proof(token, b"server", nonce, theirs))
    sock.settimeout(None)
    return channel


def _in_time(sock: socket.socket, size: int, seconds: float) -> bytes:
    """All of it within that time, however slowly it drips in."""
    data, until = b"", time.monotonic() + seconds
    while len(data) < size:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the other end does not say who it is")
        sock.settimeout(left)
        piece = sock.recv(size - len(data))
        if not piece:
            raise ConnectionError("the other end closed the connection")
        data += piece
    return data


def connect(host: str, port: int, token: str, timeout: float = HANDSHAKE_TIMEOUT) -> Channel:
    """The client's half. WireError: the server does not hold the token or is something else."""
    sock = socket.create_connection((host, port), timeout=timeout)
    try:
        _tune(sock)
        channel, mine = Channel(sock), os.urandom(_NONCE)
        hello = channel._exactly(len(_MAGIC) + _NONCE)
        if not hello.startswith(_MAGIC):
            raise WireError(f"{host}:{port} is not a server of ours")
        nonce = hello[len(_MAGIC) :]
        sock.sendall(mine + _proof(token, b"client", nonce, mine))
        if not hmac.compare_digest(channel._exactly(_MAC), _proof(token, b"server", nonce, mine)):
            raise WireError(f"{host}:{port} does not hold this job's token")
    except BaseException:
        sock.close()
        raise
    sock.settimeout(None)
    return channel


def split_address(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"address {address!r} must be host:port")
    return host.strip("[]"), int(port)


def _proof(token: str, side: bytes, server_nonce: bytes, client_nonce: bytes) -> bytes:
    return hmac.digest(token.encode(), b"edl-wire-1 " + side + server_nonce + client_nonce, "sha256")


def _tune(sock: socket.socket) -> None:
    """Sends small frames at once, and detects a vanished peer within about 15 seconds."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 3), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 15_000)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
