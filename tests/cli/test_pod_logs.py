"""Reading a pod's log: every line once and in order, whatever becomes of the connection."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from edl.cli.connect import pod_logs
from edl.cli.connect.job_logs import JobLogs
from edl.cli.connect.pod_logs import LogLine, LogRange, pod_log
from edl.kube.rest.errors import ConnectionLostError
from edl.kube.rest.transport import Request

LINES = [b"2026-01-01T00:00:00.1Z one\n", b"2026-01-01T00:00:00.1Z two\n", b"2026-01-01T00:00:00.2Z three\n"]


class Server:
    """Answers each call with the next of its answers: pieces of a log, and an error at the end if there is one."""

    def __init__(self, *answers: tuple[list[bytes], Exception | None]) -> None:
        self.answers, self.asked = list(answers), list[dict[str, str]]()

    async def stream(self, request: Request, *, idle: float) -> AsyncGenerator[bytes, None]:
        self.asked.append(dict(request.query))
        pieces, error = self.answers.pop(0)
        for piece in pieces:
            yield piece
        if error is not None:
            raise error


async def read(server: Server, part: LogRange) -> list[str]:
    return [line.text async for line in pod_log(server, "ns", "p", part)]  # type: ignore[arg-type]  # all it needs


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_logs, "AGAIN", 0.0)


async def test_lines_of_one_moment_are_all_told() -> None:
    assert await read(Server(([b"".join(LINES)], None)), LogRange()) == ["one", "two", "three"]


async def test_a_broken_connection_is_taken_up_where_it_broke() -> None:
    lost = ConnectionLostError("gone")
    server = Server((LINES[:2], lost), ([*LINES[:2], b"2026-01-01T00:00:00.1Z again\n"], lost), (LINES[2:], None))
    assert await read(server, LogRange(follow=True, tail=9)) == ["one", "two", "again", "three"]
    first = "2026-01-01T00:00:00.1Z"
    assert [asked.get("sinceTime") for asked in server.asked] == [None, first, first]
    assert "tailLines" not in server.asked[1]


async def test_what_is_not_followed_is_not_tried_again() -> None:
    with pytest.raises(ConnectionLostError):
        await read(Server((LINES, ConnectionLostError("gone"))), LogRange())


async def test_a_line_in_pieces_and_one_without_end_and_binary_ones() -> None:
    pieces = [b"2026-01-01T00:00:00.1Z o", b"ne\r\n2026-01-01T00:00:00.2Z \xff\x00", b"\n2026-01-01T00:00:00.3Z end"]
    assert await read(Server((pieces, None)), LogRange()) == ["one", "\ufffd\x00", "end"]


def pod(name: str, state: str = "running") -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": name}, "status": {"containerStatuses": [{"state": {state: {}}}]}}


async def test_pods_are_read_once_from_when_they_are_chosen() -> None:
    server, told = Server((LINES, None), ([], None)), list[LogLine]()
    logs = JobLogs(server, "ns", told.append)  # type: ignore[arg-type]  # all it needs
    logs.renew([pod("a", "waiting")], [pod("b")], now=0.0)
    assert server.asked == []
    for _ in range(2):
        logs.renew([pod("a")], [pod("b")], now=0.0)
        await asyncio.sleep(0)
    logs.renew([pod("b")], now=1_000_000_000.0)
    await logs.complete()
    await logs.close()
    assert [line.text for line in told] == ["one", "two", "three"]
    assert [asked.get("sinceTime") for asked in server.asked] == [None, "2001-09-09T01:46:40Z"]


async def test_a_pod_that_was_seen_before_it_started_is_read_from_its_first_line() -> None:
    server, told = Server((LINES, None)), list[LogLine]()
    logs = JobLogs(server, "ns", told.append)  # type: ignore[arg-type]  # all it needs
    logs.renew([], [pod("a", "waiting")], now=0.0)
    logs.renew([pod("a")], now=1_000_000_000.0)
    await logs.complete()
    assert [line.text for line in told] == ["one", "two", "three"]
    assert [asked.get("sinceTime") for asked in server.asked] == [None]


async def test_a_pod_without_a_log_is_missing_and_ends_nobody_else() -> None:
    server, told = Server(([], ConnectionLostError("gone")), (LINES, None)), list[LogLine]()
    logs = JobLogs(server, "ns", told.append, LogRange())  # type: ignore[arg-type]  # all it needs
    logs.renew([pod("a"), pod("b")], now=0.0)
    await logs.complete()
    assert (len(told), list(logs.missing)) == (3, ["a"])
