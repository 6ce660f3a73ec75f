"""The history of jobs in the Brain: written by the operator, read by whom it concerns, bounded, and there for good."""

import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from edl.brain.database import Database
from edl.brain.history_store import DAY, MOST, HistoryBounds, HistoryStore, thinned
from edl.brain.sqlite import SqliteDatabase
from edl.brain.tokens import OPERATOR, READER, mint
from edl.ledger.amounts import Amounts
from edl.ledger.booking import book, opened, use_now
from edl.ledger.job_account import JobAccount
from edl.ledger.uses import CapacityUse, Use
from edl.protocol.brain import Beginning
from edl.protocol.history import (
    ClusterPoint,
    HistoryBatch,
    HistoryLine,
    JobNews,
    KeptEvent,
    ProgressPoint,
    SizeChange,
)
from edl.protocol.job_facts import Features
from tests.brain.serving import KEY, Caller, brain
from tests.brain.test_server import Clock, call, clock

__all__ = ["call", "clock"]  # fixtures

HOUR = 3600.0
T0 = 1_000_000 * HOUR


def account(hours: float, *, created: float = T0, use: Use = Use.TRAINING) -> JobAccount:
    """Of two GPUs that did one thing."""
    return book(use_now(opened(created), use, {use: Amounts(1, 2)}), hours * HOUR).account


def news(name: str, hours: float = 1.0, *, namespace: str = "ns", ended: bool = False, **more: Any) -> JobNews:
    at = T0 + hours * HOUR
    line = HistoryLine(
        uid=f"{namespace}-{name}",
        kind="trainingjobs.paddlepaddle.org",
        namespace=namespace,
        name=name,
        created=T0,
        updated=at,
        ended=at if ended else None,
        outcome="succeeded" if ended else "",
        phase="succeeded" if ended else "running",
        size=1,
        account=account(hours),
    )
    return JobNews(job=line, **more)


FULL = news(
    "whole",
    ended=True,
    manifest='{"kind":"TrainingJob"}',
    last_lines="\x1b[31mout of memory\x00 <script>",
    sizes=(SizeChange(T0 + 1, 0, 1, "Started", "+1: starts with its minimum"),),
    points=(ProgressPoint(T0 + 30, 1, 1, done=10, loss=0.5), ProgressPoint(T0 + 60, 1, 1, done=20, loss=0.25)),
    events=(KeptEvent(T0 + 2, "Normal", "Started", "it runs"),),
)


async def keep_and_read(database: Database, again: Database) -> None:
    """Everything there is of a job is there after a restart of everything; twice told is once kept."""
    store = HistoryStore(database)
    await database.open()
    point = ClusterPoint(time=T0 + 60, seconds=60, capacity=Amounts(gpus=4), uses={CapacityUse.JOBS: Amounts(1, 2)})
    for _ in range(2):
        await store.add(HistoryBatch((FULL,), (point,)), T0 + HOUR)
    await database.close()
    await again.open()
    try:
        past = await HistoryStore(again).past("ns", "whole", "ns-whole")
        assert past is not None
        assert past.job == FULL.job
        assert (past.sizes, past.points, past.events) == (FULL.sizes, FULL.points, FULL.events)
        assert past.accounts == (FULL.job.account,)
        assert (past.manifest, past.last_lines) == (FULL.manifest, "\x1b[31mout of memory <script>")
        assert await HistoryStore(again).cluster(0, T0 + 60) == [point]
        report = await HistoryStore(again).report(T0, T0 + HOUR, cluster=True)
        assert report.jobs[0].held.gpus == 2 * HOUR
        assert report.capacity.gpus == 240
    finally:
        await again.close()


async def test_a_deleted_jobs_history_and_account_are_there_after_a_restart(tmp_path: Path) -> None:
    file = str(tmp_path / "brain.db")
    await keep_and_read(SqliteDatabase(file), SqliteDatabase(file))


async def test_later_news_add_to_what_is_there_and_older_ones_change_no_line(call: Caller) -> None:
    operator = call.as_(mint(KEY, OPERATOR))
    first = news("j", 1.0, manifest="{}", points=(ProgressPoint(T0 + 30, loss=1.0),))
    last = news("j", 2.0, ended=True, points=(ProgressPoint(T0 + 60, loss=0.5),))
    for one in (first, last, first):
        assert (await operator("POST", "/v1/history", HistoryBatch((one,))))[0] == 200
    _, past = await call("GET", "/v1/history/jobs/ns/j")
    assert past["job"]["outcome"] == "succeeded"
    assert past["manifest"] == "{}"
    assert [point["loss"] for point in past["points"]] == [1.0, 0.5]
    assert len(past["accounts"]) == 2, "one for each hour"


async def test_an_empty_account_does_not_replace_one_that_tells_of_time(call: Caller) -> None:
    """A job went before a new leader had read its account: what the last one told stands."""
    ended = news("j", 2.0, ended=True)
    empty = replace(ended, job=replace(ended.job, account=JobAccount(T0, T0)))
    for one in (news("j", 1.0), empty):
        assert (await call("POST", "/v1/history", HistoryBatch((one,))))[0] == 200
    _, past = await call("GET", "/v1/history/jobs/ns/j")
    assert past["job"]["outcome"] == "succeeded"
    assert past["job"]["account"]["until"] == T0 + HOUR


# Who may.


@pytest.mark.parametrize(
    ("subject", "write", "read", "cluster", "seen"),
    [
        (OPERATOR, 200, 403, 403, []),
        ("*", 200, 200, 200, ["other/b", "ns/a"]),
        (READER, 403, 200, 200, ["other/b", "ns/a"]),
        ("ns/*", 403, 200, 403, ["ns/a"]),
        ("ns/a", 403, 200, 403, ["ns/a"]),
        ("ns/a/ns-a", 403, 200, 403, ["ns/a"]),
        ("ns/a/another", 403, 403, 403, []),
        ("other/*", 403, 403, 403, ["other/b"]),
    ],
)
async def test_a_token_reads_what_it_may_act_for_and_the_operator_alone_writes(
    call: Caller, subject: str, write: int, read: int, cluster: int, seen: list[str]
) -> None:
    await call("POST", "/v1/history", HistoryBatch((news("a"), news("b", 2.0, namespace="other"))))
    own = call.as_(mint(KEY, subject))
    assert (await own("POST", "/v1/history", HistoryBatch()))[0] == write
    assert (await own("GET", "/v1/history/jobs/ns/a/ns-a"))[0] == read
    assert (await own("GET", "/v1/history/cluster"))[0] == cluster
    _, lines = await own("GET", "/v1/history")
    assert sorted(f"{line['namespace']}/{line['name']}" for line in lines) == sorted(seen)
    _, report = await own("GET", f"/v1/history/report?since={T0}&until={T0 + 2 * HOUR}")
    assert sorted(f"{line['namespace']}/{line['name']}" for line in report.get("jobs", [])) == sorted(seen)
    assert {line["namespace"] for line in report.get("namespaces", [])} == {one.partition("/")[0] for one in seen}


async def test_tokens_of_the_history_open_no_job(call: Caller) -> None:
    for subject in (OPERATOR, READER):
        own = call.as_(mint(KEY, subject))
        assert (await own("POST", "/v1/jobs/ns/first/u1", Beginning(Features())))[0] == 403


async def test_a_jobs_own_token_finds_its_own_history_by_name(call: Caller) -> None:
    older, newer = news("j"), news("j", 2.0)
    newer = replace(newer, job=replace(newer.job, uid="second", created=T0 + 60))
    await call("POST", "/v1/history", HistoryBatch((older, newer)))
    assert (await call("GET", "/v1/history/jobs/ns/j"))[1]["job"]["uid"] == "second"
    own = call.as_(mint(KEY, "ns/j/ns-j"))
    assert (await own("GET", "/v1/history/jobs/ns/j"))[1]["job"]["uid"] == "ns-j"
    assert (await own("GET", "/v1/history/jobs/ns/j/second"))[0] == 403


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/v1/history?limit=0.5e9", "limit is '0.5e9', it must be a number from 0 to 10000"),
        ("/v1/history?since=nan", "since is 'nan'"),
        ("/v1/history/cluster?since=-1", "since is '-1'"),
        ("/v1/history/report?until=soon", "until is 'soon'"),
    ],
)
async def test_bad_numbers_are_refused_by_name(call: Caller, path: str, words: str) -> None:
    status, answer = await call("GET", path)
    assert (status, words in answer["error"]) == (400, True), answer


async def test_news_that_make_no_sense_are_refused_with_the_field(call: Caller) -> None:
    bad = {
        "jobs": [{"job": {"uid": "a/../b", "kind": "k", "namespace": "n", "name": "m", "created": 1, "account": {}}}]
    }
    status, answer = await call("POST", "/v1/history", bad)
    assert (status, "$.jobs[0].job.uid" in answer["error"]) == (400, True), answer


# Bounds.


async def test_what_is_too_old_is_forgotten(tmp_path: Path) -> None:
    database = SqliteDatabase(str(tmp_path / "brain.db"))
    await database.open()
    store = HistoryStore(database, HistoryBounds(days=2))
    point = ClusterPoint(time=T0, seconds=60)
    await store.add(HistoryBatch((FULL, news("alive", 72.0, points=FULL.points)), (point,)), T0)
    await store.forget(T0 + 4 * DAY)
    assert [line.name for line in await store.lines(since=0)] == ["alive"]
    past = await store.past("ns", "alive", "ns-alive")
    assert past is not None
    assert past.points == ()
    assert await store.cluster(0, T0 + 1) == []
    await database.close()


async def test_too_much_makes_room_in_the_namespace_that_has_most_and_never_of_jobs_that_live(tmp_path: Path) -> None:
    database = SqliteDatabase(str(tmp_path / "brain.db"))
    await database.open()
    store = HistoryStore(database, HistoryBounds(mebibytes=1))
    large = "x" * 60_000
    many = [news(f"j{number}", 1 + number, namespace="greedy", ended=True, manifest=large) for number in range(20)]
    modest = [news("old", 0.5, namespace="modest", ended=True, manifest=large), news("live", 0.1, manifest=large)]
    await store.add(HistoryBatch((*many, *modest)), T0)
    await store.forget(T0 + 60)
    left = {f"{line.namespace}/{line.name}" for line in await store.lines(since=0)}
    assert {"modest/old", "ns/live", "greedy/j19"} <= left
    assert "greedy/j0" not in left
    assert 10 < len(left) < 18
    await database.close()


async def test_a_job_keeps_its_newest_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MOST, "event", 3)
    database = SqliteDatabase(str(tmp_path / "brain.db"))
    await database.open()
    store = HistoryStore(database)
    events = tuple(KeptEvent(T0 + number, "Normal", "R", str(number)) for number in range(5))
    await store.add(HistoryBatch((news("j", events=events),)), T0)
    await store.forget(T0 + HOUR)
    past = await store.past("ns", "j", "ns-j")
    assert past is not None
    assert [event.message for event in past.events] == ["2", "3", "4"]
    await database.close()


def test_points_of_the_cluster_are_thinned_to_means() -> None:
    points = [
        ClusterPoint(
            time=float(number), seconds=60, capacity=Amounts(gpus=8), uses={CapacityUse.JOBS: Amounts(gpus=number)}
        )
        for number in range(10)
    ]
    assert thinned(points, 10) == points
    few = thinned(points, 2)
    assert [(point.time, point.seconds) for point in few] == [(4, 300), (9, 300)]
    assert [point.uses[CapacityUse.JOBS].gpus for point in few] == pytest.approx([2, 7])
    assert few[0].capacity == Amounts(gpus=8)


# Periods.


async def test_a_report_has_what_was_used_in_the_period(call: Caller, clock: Clock) -> None:
    """Told once an hour; periods that follow each other add up, whatever hour they end in."""
    for hour in range(1, 6):
        await call("POST", "/v1/history", HistoryBatch((news("j", float(hour)),)))
    parts = []
    for since, until in ((0.0, 1.25), (1.25, 3.5), (3.5, 9.0)):
        _, report = await call("GET", f"/v1/history/report?since={T0 + since * HOUR}&until={T0 + until * HOUR}")
        parts.append(report["jobs"][0]["spent"]["training"]["amounts"]["gpus"] / HOUR)
    assert parts == pytest.approx([2.5, 4.5, 3.0])


async def test_a_database_that_is_away_takes_nothing_and_says_so(tmp_path: Path, clock: Clock) -> None:
    file = tmp_path / "brain.db"
    async with brain(SqliteDatabase(str(file)), clock=clock) as call:
        file.rename(tmp_path / "away")
        assert (await call("POST", "/v1/history", HistoryBatch((FULL,))))[0] == 503
        (tmp_path / "away").rename(file)
        assert (await call("POST", "/v1/history", HistoryBatch((FULL,))))[0] == 200


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
names = st.sampled_from(
    ["uid", "kind", "namespace", "name", "created", "updated", "ended", "outcome", "account", "size"]
)


bodies = st.lists(st.tuples(st.dictionaries(names, anything), st.lists(anything, max_size=3), anything), max_size=40)


@settings(max_examples=5)
@given(bodies)
async def test_any_news_are_taken_or_refused_and_never_break_the_brain(
    many: list[tuple[dict[str, Any], list[Any], Any]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with brain(SqliteDatabase(f"{folder}/brain.db"), clock=lambda: T0) as call:
            for line, points, manifest in many:
                sent = {**msgspec.to_builtins(FULL.job), **line}
                body = {"jobs": [{"job": sent, "points": points, "manifest": manifest}]}
                status, answer = await call("POST", "/v1/history", body)
                assert status in (200, 400), answer
                assert status == 200 or "the body cannot be read" in answer["error"], answer
            for path in ("/v1/history", f"/v1/history/report?since=0&until={T0}", "/v1/history/jobs/ns/whole"):
                assert (await call("GET", path))[0] in (200, 404)
