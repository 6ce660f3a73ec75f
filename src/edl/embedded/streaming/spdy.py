"""SPDY/3.1 framing, as far as Kubernetes port-forwarding uses it: bytes in, events out, no I/O.

kubectl multiplexes forwarded connections over SPDY streams inside a WebSocket. Only that is needed, so there is no flow
control (the Go implementation has none either: it ignores windows) and no priority.
"""

import struct
import zlib
from collections.abc import Iterator, Mapping

import msgspec

_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_TAIL = (
    b"100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505203 "
    b"Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden404 "
    b"Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept "
    b"Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,"
    b"application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,"
    b"sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = b"".join(struct.pack(">I", len(word)) + word.replace("_", " ").encode() for word in _WORDS.split()) + _TAIL
"""The preset zlib dictionary that the protocol fixes (its Adler-32 is 0xe3c6a7c2)."""

_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 1, 2, 3, 6, 7
_FIN = 1
_LIMIT = 1 << 24


class SpdyError(Exception):
    """The peer does not speak SPDY/3.1; the connection cannot continue."""


class Opened(msgspec.Struct, frozen=True):
    """The peer opened a stream; answer with `Session.reply`."""

    stream: int
    headers: Mapping[str, str]
    finished: bool = False


class Accepted(msgspec.Struct, frozen=True):
    """The peer accepted a stream that we opened."""

    stream: int


class Data(msgspec.Struct, frozen=True):
    stream: int
    payload: bytes
    finished: bool


class Reset(msgspec.Struct, frozen=True):
    stream: int


class Pinged(msgspec.Struct, frozen=True):
    """A ping; send `answer` back as it is."""

    answer: bytes


Event = Opened | Accepted | Data | Reset | Pinged


class Session:
    """One end of one connection. Frames that we build must be sent in the order in which they were built."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)
        self._pending = bytearray()
        self._next_stream = 1

    def feed(self, received: bytes) -> Iterator[Event]:
        """Yields the events of every frame that is complete now."""
        self._pending += received
        while len(self._pending) >= 8:
            head, second = struct.unpack_from(">II", self._pending)
            flags, length = second >> 24, second & 0xFFFFFF
            if len(self._pending) < 8 + length:
                return
            body = bytes(self._pending[8 : 8 + length])
            del self._pending[: 8 + length]
            if head >> 31:
                event = self._control(head, flags, body)
                if event is not None:
                    yield event
            else:
                yield Data(head, body, bool(flags & _FIN))

    def _control(self, head: int, flags: int, body: bytes) -> Event | None:
        if head >> 16 != 0x8003:
            raise SpdyError(f"control frame of version {(head >> 16) & 0x7FFF}, only 3 is spoken here")
        kind = head & 0xFFFF
        try:
            if kind == _SYN_STREAM:
                (stream,) = struct.unpack_from(">I", body)
                return Opened(stream, self._headers(body[10:]), bool(flags & _FIN))
            if kind == _SYN_REPLY:
                self._headers(body[4:])
                return Accepted(struct.unpack_from(">I", body)[0])
            if kind == _RST_STREAM:
                return Reset(struct.unpack_from(">I", body)[0])
        except (struct.error, zlib.error, UnicodeDecodeError) as error:
            raise SpdyError(f"broken control frame of type {kind}: {error}") from None
        # Settings, windows and going away need no answer.
        return Pinged(_frame(_PING, 0, body)) if kind == _PING else None

    def _headers(self, block: bytes) -> dict[str, str]:
        text = self._inflate.decompress(block, _LIMIT)
        (count,) = struct.unpack_from(">I", text)
        headers: dict[str, str] = {}
        position = 4
        for _ in range(count):
            name, position = _string(text, position)
            headers[name.lower()], position = _string(text, position)
        return headers

    def _block(self, headers: Mapping[str, str]) -> bytes:
        text = struct.pack(">I", len(headers))
        for name, value in headers.items():
            text += struct.pack(">I", len(name)) + name.encode() + struct.pack(">I", len(value)) + value.encode()
        return self._deflate.compress(text) + self._deflate.flush(zlib.Z_SYNC_FLUSH)

    def open(self, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """Opens a stream (odd numbers, as the client): its number and the frame to send."""
        stream, self._next_stream = self._next_stream, self._next_stream + 2
        return stream, _frame(_SYN_STREAM, 0, struct.pack(">IIH", stream, 0, 0) + self._block(headers))

    def reply(self, stream: int) -> bytes:
        return _frame(_SYN_REPLY, 0, struct.pack(">I", stream) + self._block({}))


def data(stream: int, payload: bytes, *, finished: bool = False) -> bytes:
    return struct.pack(">II", stream, (_FIN if finished else 0) << 24 | len(payload)) + payload


def reset(stream: int) -> bytes:
    return _frame(_RST_STREAM, 0, struct.pack(">II", stream, 5))


def _frame(kind: int, flags: int, body: bytes) -> bytes:
    return struct.pack(">II", 0x80030000 | kind, flags << 24 | len(body)) + body


def _string(text: bytes, position: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">I", text, position)
    end = position + 4 + length
    if end > len(text):
        raise SpdyError("a header is longer than its block")
    return text[position + 4 : end].decode(), end
