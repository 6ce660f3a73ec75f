"""However the bytes of an answer are cut on their way, they are read as aiohttp reads them, only in larger pieces."""

import asyncio
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, cast

import pytest
from aiohttp.client_proto import ResponseHandler
from hypothesis import given, settings
from hypothesis import strategies as st

from edl.kube.rest.chunked_bodies import BulkHandler

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n%b\r\n"
CHUNKED = HEAD % b"Transfer-Encoding: chunked\r\n"
END = b"0\r\n\r\n"


class Wire:
    """A transport that remembers whether it was told to wait, and that it was closed."""

    paused = closed = False

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def close(self) -> None:
        self.closed = True


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def handler(kind: type[ResponseHandler]) -> tuple[ResponseHandler, Wire]:
    made, wire = kind(loop=asyncio.get_running_loop()), Wire()
    made.transport = cast(Any, wire)
    made.set_response_params(auto_decompress=False, read_bufsize=2**16)
    return made, wire


async def read(kind: type[ResponseHandler], pieces: Iterable[bytes]) -> tuple[bytes, str]:
    """What came, and how it ended: the connection can be used again, or it broke, or more was to come."""
    made, _ = handler(kind)
    for piece in pieces:
        if made.exception() is None:
            made.data_received(piece)
    if made.exception() is not None:
        return b"", "broken"
    _, payload = await made.read()
    came = b""
    while part := payload.read_nowait():
        came += part
    if payload.at_eof():
        return came, "broken" if made.should_close else "ended"
    made.connection_lost(None)
    return came, type(payload.exception()).__name__


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(ends)]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=6),
    st.lists(st.integers(0, 10_000), max_size=12),
    st.booleans(),
)
def test_any_chunks_cut_anywhere(bodies: list[bytes], places: list[int], ended: bool) -> None:
    data = CHUNKED + b"".join(map(chunk, bodies)) + (END if ended else b"")
    pieces = cut(data, places)
    came, how = asyncio.run(read(BulkHandler, pieces))
    assert (came, how) == (b"".join(bodies), "ended" if ended else "ClientPayloadError")


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(CHUNKED + b"3;name=value\r\nabc\r\n" + chunk(b"d") + END, id="an-extension"),
        pytest.param(CHUNKED + chunk(b"ab") + b"0003\r\nabc\r\n" + END, id="a-padded-size"),
        pytest.param(CHUNKED + chunk(b"ab") + b"0\r\nTrailer: x\r\n\r\n", id="trailers"),
        pytest.param(HEAD.replace(b"%b", b"tRANSFER-encoding:chunked\r\n") + chunk(b"a") + END, id="another-spelling"),
        pytest.param(HEAD % b"Content-Length: 5\r\n" + b"3\r\nab", id="no-chunks"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" + CHUNKED + chunk(b"a") + END, id="continue"),
        pytest.param(CHUNKED + chunk(b"ab") + b"xyz\r\nabc\r\n" + END, id="no-size"),
        pytest.param(CHUNKED + chunk(b"ab") + b"-3\r\nabc\r\n" + END, id="a-negative-size"),
        pytest.param(CHUNKED + b"2\r\nabcdef\r\n" + chunk(b"a" * 20) + END, id="longer-than-it-said"),
    ],
)
async def test_what_is_unusual_is_left_to_aiohttp(answer: bytes) -> None:
    for size in (1, 2, 5, 11, 1000):
        pieces = [answer[at : at + size] for at in range(0, len(answer), size)]
        ours, theirs = await read(BulkHandler, pieces), await read(ResponseHandler, pieces)
        assert ours[1] == theirs[1]
        if ours[1] == "ended":
            assert ours == theirs


async def test_chunks_that_arrive_together_go_on_together_and_the_connection_serves_again() -> None:
    made, _ = handler(BulkHandler)
    for _ in range(2):
        made.data_received(CHUNKED + b"".join(map(chunk, (b"a\n", b"b\n", b"c"))))
        _, payload = await made.read()
        assert await payload.readany() == b"a\nb\nc"
        made.data_received(chunk(b"\n") + END)
        assert await payload.read() == b"\n"
        assert not made.should_close
        made.set_response_params(auto_decompress=False, read_bufsize=2**16)


async def test_a_reader_that_is_slow_makes_the_server_wait_and_then_go_on() -> None:
    made, wire = handler(BulkHandler)
    made.data_received(CHUNKED)
    _, payload = await made.read()
    made.data_received(chunk(b"x" * 2**18))
    assert wire.paused
    assert len(await payload.readany()) == 2**18
    assert not wire.paused
    made.data_received(b"0003\r\nabc\r\n")  # read by aiohttp, which must not wait any more
    assert await payload.readany() == b"abc"
    made.data_received(END)
    assert await payload.read() == b""
