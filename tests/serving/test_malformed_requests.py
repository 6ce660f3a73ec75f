"""Requests that are no HTTP are refused, and nothing of them reaches the log: a header may bear a token."""

import asyncio
import contextlib

import pytest
from aiohttp import web

from edl.serving.http import serve_app

SECRET = "s3cr3t-" * 2000  # longer than a header may be


@pytest.mark.parametrize(
    "words",
    [f"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {SECRET}\r\n\r\n", f"GET / HTTP/9.9 {SECRET[:200]}\r\n\r\n"],
    ids=["a long header", "no HTTP"],
)
async def test_a_malformed_request_is_refused_without_a_word_of_it_in_the_log(
    words: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    runner = await serve_app(web.Application(), "127.0.0.1", 0)
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", runner.addresses[0][1])
        writer.write(words.encode())
        assert (await reader.readline()).split()[1] == b"400"
        writer.close()
        with contextlib.suppress(ConnectionError):  # what is left unread may come back as a reset
            await writer.wait_closed()
    finally:
        await runner.cleanup()
    assert "s3cr3t" not in caplog.text
