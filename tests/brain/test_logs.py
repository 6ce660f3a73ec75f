"""Logs of pods at the Brain: written by the job's own token, read by whom it concerns, bounded, gone after days."""

from pathlib import Path

import pytest

from edl.brain.database import Database
from edl.brain.history_store import DAY
from edl.brain.log_calls import CALLS
from edl.brain.log_store import MIB, SLACK, LogBounds, LogStore
from edl.brain.sqlite import SqliteDatabase
from edl.brain.tokens import READER, mint
from edl.protocol.kept_logs import LogChunk
from tests.brain.serving import KEY, Caller
from tests.brain.test_server import Clock, call, clock

__all__ = ["call", "clock"]  # fixtures

JOB = ("ns", "j", "u")
LOGS = "/v1/jobs/ns/j/u/logs"
KEPT = "/v1/history/jobs/ns/j/u/logs"


def chunk(number: int, lines: str = "", *, pod: str = "p", leads: bool = False) -> LogChunk:
    return LogChunk(pod=pod, number=number, lines=lines or f"2026-11-18T00:00:00Z line {number}\n", leads=leads)


async def keep_and_trim(database: Database) -> None:
    """The end of each log is kept, more of rank 0's; twice told is once kept; namespaces have their share."""
    await database.open()
    bounds = LogBounds(pod_mebibytes=0.5, leading_mebibytes=2, namespace_mebibytes=3, mebibytes=4)
    store, block = LogStore(database, bounds), "x" * (MIB // 8 - 1) + "\n"
    try:
        for number in range(40):
            for pod, leads in (("worker", False), ("rank-0", number == 0)):
                for _ in range(2):
                    await store.add(JOB, chunk(number, f"{number} {block}", pod=pod, leads=leads), 1000.0 + number)
        sizes = {log.pod: log.bytes for log in await store.pods(*JOB)}
        assert 0.5 * MIB <= sizes["worker"] <= 0.5 * MIB + 2 * SLACK
        assert 2 * MIB <= sizes["rank-0"] <= 2 * MIB + 2 * SLACK
        lines = (await store.lines(JOB, "worker")).splitlines()
        first = int(lines[0].split()[0])
        assert [int(line.split()[0]) for line in lines] == list(range(first, 40)), "the last ones, each once, in order"
        for number in range(4):
            await store.add(("other", "j", f"u{number}"), chunk(1, block * 7), 1100.0 + number)
        await store.forget(1200.0)
        assert [log.pod for log in await store.pods(*JOB)] == ["worker"], "the namespace that had most gives way"
        assert await store.lines(JOB, "rank-0") == ""
        left = [bool(await store.lines(("other", "j", f"u{number}"), "p")) for number in range(4)]
        assert left == [False, True, True, True], "and the oldest of one that had too much"
    finally:
        await database.close()


async def test_the_end_of_each_log_is_kept_and_namespaces_have_their_share(tmp_path: Path) -> None:
    await keep_and_trim(SqliteDatabase(str(tmp_path / "brain.db")))


async def test_a_log_is_there_for_a_week_also_after_a_restart(tmp_path: Path) -> None:
    file, week = str(tmp_path / "brain.db"), 7 * DAY
    first = LogStore(SqliteDatabase(file))
    await first._database.open()
    await first.add(JOB, chunk(1), 1000.0)
    await first._database.close()
    again = LogStore(SqliteDatabase(file))
    await again._database.open()
    await again.forget(1000.0 + week)
    assert "line 1" in await again.lines(JOB, "p")
    await again.forget(1001.0 + week)
    assert await again.lines(JOB, "p") == ""
    await again._database.close()


async def test_a_jobs_own_token_writes_and_reads_it(call: Caller) -> None:
    own = call.as_(mint(KEY, "ns/j/u"))
    assert await own("POST", LOGS, chunk(1)) == (200, {})
    for reader in (own, call, call.as_(mint(KEY, READER)), call.as_(mint(KEY, "ns/*"))):
        status, found = await reader("GET", KEPT)
        assert (status, [(log["pod"], log["uid"]) for log in found]) == (200, [("p", "u")])
        assert (await reader("GET", f"{KEPT}/p"))[1]["lines"] == chunk(1).lines
        assert (await reader("GET", "/v1/history/jobs/ns/j/logs"))[1] == found, "the newest job of that name"


@pytest.mark.parametrize("subject", ["ns/j/another", "ns/other/u", "else/*", READER])
async def test_nobody_else_writes(call: Caller, subject: str) -> None:
    assert (await call.as_(mint(KEY, subject))("POST", LOGS, chunk(1)))[0] == 403


@pytest.mark.parametrize("subject", ["ns/j/another", "ns/other/u", "else/*"])
async def test_nobody_else_reads(call: Caller, subject: str) -> None:
    await call("POST", LOGS, chunk(1))
    stranger = call.as_(mint(KEY, subject))
    for path in (KEPT, f"{KEPT}/p", "/v1/history/jobs/ns/j/logs"):
        assert (await stranger("GET", path))[0] == 403


async def test_who_knows_a_uid_alone_reads_nothing_under_another_name(call: Caller) -> None:
    await call("POST", LOGS, chunk(1))
    other = call.as_(mint(KEY, "mine/*"))
    assert await other("GET", "/v1/history/jobs/mine/j/u/logs/p") == (200, {"pod": "p", "lines": ""})


async def test_who_writes_too_much_is_refused_and_trainers_are_not(call: Caller, clock: Clock) -> None:
    own, answers = call.as_(mint(KEY, "ns/j/u")), set[int]()
    for number in range(int(CALLS) * 10):
        answers.add((await own("POST", LOGS, chunk(number)))[0])
    assert answers == {200, 429}
    assert (await own("GET", "/v1/jobs"))[0] == 200
    clock.now += 1.0
    assert (await own("POST", LOGS, chunk(9999)))[0] == 200


@pytest.mark.parametrize(
    "body",
    [
        {"pod": "p", "number": 1},
        {"pod": "../p", "number": 1, "lines": ""},
        {"pod": "p", "number": -1, "lines": ""},
        {"pod": "p", "number": 1, "lines": "x" * (1 << 20)},
        b"no json",
    ],
)
async def test_what_is_no_chunk_is_refused(call: Caller, body: object) -> None:
    assert (await call("POST", LOGS, body))[0] == 400


async def test_a_nul_does_not_stop_a_log(call: Caller) -> None:
    await call("POST", LOGS, chunk(1, "2026-11-18T00:00:00Z a\0b \x1b[31m\n"))
    assert (await call("GET", f"{KEPT}/p"))[1]["lines"] == "2026-11-18T00:00:00Z ab \x1b[31m\n"
