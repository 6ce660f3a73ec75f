"""Decodes HTTP's chunked transfer encoding in bulk, below aiohttp.

An API server sends every event of a watch in a chunk of its own, and aiohttp hands on each by itself. Here the chunks
that arrived together go on together, at half the cost. aiohttp still does the rest: it reads the header before the
first chunk, and whatever is no plain chunk, such as the end of them. So errors, silence and the use of connections for
the next request are its business as ever.
"""

import re
from typing import Any

from aiohttp.client_proto import ResponseHandler

_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[ \t]*chunked[ \t]*\r\n", re.IGNORECASE).search
_SIZE = re.compile(rb"\r\n([1-9a-fA-F][0-9a-fA-F]{0,7})\r\n").match  # the end of a chunk and the size of the next
_LONGEST_SIZE = 12


class BulkHandler(ResponseHandler):
    """Reads the answers that come over one connection."""

    _begins = False
    """Nothing has come yet of the present answer."""
    _due: int | None = None
    """Bytes to come of the present chunk. None: aiohttp reads this answer."""
    _cut = b""
    """Of the next size, what has come already."""

    def set_response_params(self, **options: Any) -> None:
        self._begins, self._due = True, None
        super().set_response_params(**options)

    def data_received(self, data: bytes) -> None:
        if self._begins and data:
            self._begins = False
            head, blank, rest = data.partition(b"\r\n\r\n")
            if blank and _CHUNKED(head + b"\r\n"):
                super().data_received(head + blank)
                self._due, self._cut, data = 0, b"\r\n", rest
                if self._payload is not None:
                    self._payload.begin_http_chunk_receiving()  # else it would not believe in the last one
        if self._due is None or self._payload is None:
            super().data_received(data)
        elif data:
            self._split(self._cut + data, self._due)

    def _split(self, data: bytes, due: int) -> None:
        assert self._payload is not None
        view, pieces, at, end = memoryview(data), [], 0, len(data)
        while at + due <= end:
            pieces.append(view[at : at + due])
            at, due = at + due, 0
            size = _SIZE(data, at)
            if size is None:
                break
            at, due = size.end(), int(size[1], 16)
        else:
            pieces.append(view[at:])
            at, due = end, due - (end - at)
        self._due, self._cut = due, data[at:]
        self._payload.feed_data(b"".join(pieces))
        if len(self._cut) >= _LONGEST_SIZE or self._cut.startswith(b"\r\n0"):
            self._due = None
            ended = self._cut.startswith(b"\r\n")  # else the chunk is longer than it said, and no size comes now
            super().data_received(self._cut[2:] if ended else b"\r\n")

    def pause_reading(self) -> None:
        """As the parent, whose parser must not wait: it has nothing, and would never be resumed."""
        if self._due is None:
            super().pause_reading()
        elif self.transport is not None:
            self._reading_paused = True
            self.transport.pause_reading()
