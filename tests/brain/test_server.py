"""The Brain over HTTP: a whole life of jobs, who may ask what, and what happens when the database does not answer."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edl.brain.database import MIGRATIONS, UnavailableError
from edl.brain.openapi import CALLS, document
from edl.brain.sqlite import SqliteDatabase
from edl.brain.store import Store
from edl.brain.tokens import mint, opens, read_key, subject_of
from edl.protocol.brain import Ask, Beginning, Ending, Report
from edl.protocol.job_facts import Capacity, Features, Incident, Limits, PlanRecord, ResourcePlan, Sample
from tests.brain.serving import KEY, Caller, brain
from tests.brain.simulated import roles

CTR = Features(program="python ctr.py", records=1e5, batch=64)
JOB = "/v1/jobs/ns/first/u1"


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def call(tmp_path: Path, clock: Clock) -> AsyncIterator[Caller]:
    async with brain(SqliteDatabase(str(tmp_path / "brain.db")), clock=clock) as caller:
        yield caller


async def lead(
    call: Caller,
    clock: Clock,
    path: str,
    knee: int,
    periods: int = 14,
    limits: Limits = Limits(),  # noqa: B008 - it is immutable
) -> list[int]:
    """A trainer's part in a few lines, on a job that saturates at `knee`; the sizes of its plans."""
    _, answer = await call("POST", path, Beginning(CTR, limits=limits))
    records = [PlanRecord(1, clock.now, msgspec.convert(answer["plan"], ResourcePlan))]
    for _ in range(periods):
        clock.now += 30
        plan = records[-1].plan
        size = plan.roles["worker"].replicas
        sample = Sample(clock.now, 29.0, size, 10.0 * min(size, knee), plan.roles["ps"].replicas)
        ask = Ask(
            present=plan.roles,
            slots=plan.slots,
            granted={"worker": size},
            samples=(sample,),
            plans=tuple(records),
            limits=limits,
        )
        status, answer = await call("POST", f"{path}/plan", ask)
        assert status == 200, answer
        if judged := answer.get("judged"):
            records[-1] = msgspec.structs.replace(records[-1], obtained=judged["obtained"], verdict=judged["verdict"])
        if answer.get("plan"):
            records.append(
                PlanRecord(
                    len(records) + 1, clock.now, msgspec.convert(answer["plan"], ResourcePlan), sample.throughput
                )
            )
    return [record.plan.roles["worker"].replicas for record in records]


async def test_a_job_is_led_and_the_next_one_like_it_starts_there(call: Caller, clock: Clock) -> None:
    assert await lead(call, clock, JOB, 6) == [2, 4, 8, 6]
    assert (await call("POST", f"{JOB}/outcome", Ending("succeeded")))[0] == 200
    _, answer = await call("POST", "/v1/jobs/ns/second/u2", Beginning(CTR))
    assert answer["plan"]["roles"]["worker"]["replicas"] == 6
    assert "as ns/first, the most similar of 1 past jobs" in answer["reason"]
    _, what_if = await call("POST", "/v1/plan", Beginning(CTR))
    assert what_if["plan"]["roles"] == answer["plan"]["roles"]
    _, fitted = await call("POST", "/v1/plan", Beginning(CTR, Capacity(cpu=3.0, memory=60_000)))
    assert fitted["plan"]["roles"]["worker"]["replicas"] == 2


async def test_what_it_knows_can_be_read(call: Caller, clock: Clock) -> None:
    await lead(call, clock, JOB, 6)
    clock.now += 100
    await call("POST", "/v1/jobs/ns/other/u9", Beginning(CTR))
    _, listed = await call("GET", "/v1/jobs")
    assert [line["job"] for line in listed] == ["ns/other/u9", "ns/first/u1"]
    _, newest = await call("GET", "/v1/jobs?limit=1")
    assert len(newest) == 1
    for path in ("/v1/jobs/ns/first", JOB):
        _, detail = await call("GET", path)
        assert detail["job"]["job"] == "ns/first/u1"
        assert [plan["number"] for plan in detail["plans"]] == [1, 2, 3, 4]
        assert [plan["verdict"] for plan in detail["plans"]] == ["safety", "paid", "paid", "safety"]
        assert len(detail["samples"]) == 14


async def test_a_report_may_be_repeated(call: Caller, clock: Clock) -> None:
    await call("POST", JOB, Beginning(CTR))
    report = Report(
        samples=(Sample(5.0, 4.0, 2, 20.0), Sample(9.0, 4.0, 2, 21.0)), incidents=(Incident("worker-0", "Error", 7.0),)
    )
    for _ in range(3):
        assert await call("POST", f"{JOB}/reports", report) == (200, {})
    _, detail = await call("GET", JOB)
    assert [sample["time"] for sample in detail["samples"]] == [5.0, 9.0]
    assert len(detail["incidents"]) == 1


async def test_jobs_that_compete_are_not_advised_to_take_the_same_room(call: Caller, clock: Clock) -> None:
    """Ten cores beside each, of which the other holds eight. One rises steeply, the other hardly; it asks first."""
    for name, rates in (("flat", {4: 40.0, 8: 64.0}), ("steep", {4: 40.0, 8: 80.0})):
        path, plan = f"/v1/jobs/ns/{name}/u", ResourcePlan("start-cold", "test", roles(8))
        await call("POST", path, Beginning(CTR))
        samples = tuple(
            Sample(clock.now + 10 * at, 9.0, size, rate)
            for at, (size, rate) in enumerate(sorted(2 * list(rates.items())))
        )
        await call("POST", f"{path}/reports", Report(samples=samples, plans=(PlanRecord(1, clock.now - 50, plan),)))
    clock.now += 100

    async def ask(name: str) -> Any:
        body = Ask(present=roles(8), granted={"worker": 8}, capacity=Capacity(cpu=10.0, memory=65536))
        return (await call("POST", f"/v1/jobs/ns/{name}/u/plan", body))[1]

    assert (await ask("flat"))["plan"]["roles"]["worker"]["replicas"] > 8, "it is alone"
    assert (await ask("steep"))["plan"]["roles"]["worker"]["replicas"] == 10
    answer = await ask("flat")
    assert "plan" not in answer
    assert "other jobs gain more" in answer["reason"]


# Who may ask.


@pytest.mark.parametrize(
    ("token", "status", "words"),
    [
        ("", 401, "send Authorization: Bearer TOKEN"),
        ("edlb1.Kg.0.AAAA", 401, "not made with this Brain's key"),
        ("rubbish", 401, "not made with this Brain's key"),
        (mint(b"another key for tests", "*"), 401, "not made with this Brain's key"),
        (mint(KEY, "*", 999_999.0), 401, "has expired"),
        (mint(KEY, "ns/second"), 403, "this token is for ns/second"),
        (mint(KEY, "other/*"), 403, "this token is for other/*"),
        (mint(KEY, "ns/*", 1_000_001.0), 200, ""),
        (mint(KEY, "ns/first"), 200, ""),
    ],
)
async def test_a_token_opens_its_own_job_alone(call: Caller, token: str, status: int, words: str) -> None:
    found, body = await call.as_(token)("POST", JOB, Beginning(CTR))
    assert found == status
    assert words in body.get("error", "")


async def test_a_list_shows_only_what_the_token_opens(call: Caller) -> None:
    for path in (JOB, "/v1/jobs/elsewhere/first/u1"):
        await call("POST", path, Beginning(CTR))
    _, listed = await call.as_(mint(KEY, "ns/*"))("GET", "/v1/jobs")
    assert [line["job"] for line in listed] == ["ns/first/u1"]


@pytest.mark.case("attack-low-bearer")
async def test_a_token_of_bytes_that_are_no_text_is_a_wrong_one(call: Caller) -> None:
    host, _, port = call.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /v1/jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff.\xff\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"not made with this Brain's key" in answer


def test_subjects() -> None:
    assert opens("*", "ns/j")
    assert opens("ns/*", "ns/j")
    assert not opens("n*", "ns/j")
    assert not opens("ns/*", "ns2/j")
    assert not opens("ns/j", "ns/j2")
    assert not opens("ns/j/u", "ns/j/u2")
    assert not opens("ns/j/u", "ns/j")
    assert subject_of(KEY, mint(KEY, "ns/j"), 0.0) == "ns/j"
    with pytest.raises(ValueError, match="16 or more"):
        read_key(b" short \n")
    for nobody in ("", "ns", "ns/", "ns/j/u/x"):
        with pytest.raises(ValueError, match=r"it must be namespace/name/uid, namespace/name, namespace/\* or \*"):
            mint(KEY, nobody)


# Bad input.


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        (JOB, b"{", 400, "the body cannot be read"),
        (JOB, b"\x80\x04", 400, "the body cannot be read"),
        (JOB, {"features": {"gpu": -1}}, 400, "$.features.gpu"),
        (JOB, {"features": {"strategy": "gossip"}}, 400, "$.features.strategy"),
        (f"{JOB}/plan", {"present": {"worker": {"replicas": 10**9}}}, 400, "$.present[...].replicas"),
        (f"{JOB}/plan", {"present": {}}, 404, "POST its features first"),
        (f"{JOB}/outcome", {"outcome": "perhaps"}, 400, "$.outcome"),
        (f"{JOB}/nothing", {}, 404, "Not Found"),
        ("/v1/jobs/ns/first%2Fx/u", {"features": {}}, 400, "have no slash"),
        (JOB, b" " * (5 << 20), 413, "at most"),
    ],
)
async def test_bad_input_is_refused_with_the_field(
    call: Caller, path: str, body: object, status: int, words: str
) -> None:
    found, answer = await call("POST", path, body)
    assert (found, words in answer["error"]) == (status, True), answer


async def test_the_document_names_every_call_that_is_served(call: Caller) -> None:
    _, served = await call("GET", "/openapi.json")
    assert served == msgspec.json.decode(msgspec.json.encode(document()))
    for method, path, _, body, _ in CALLS:
        status, _ = await call(method.upper(), path.replace("{", "").replace("}", ""), {} if body else None)
        assert status in (200, 400, 404), (method, path, status)
        assert served["paths"][path][method]["summary"]
    assert served["components"]["schemas"]["Sample"]["required"] == ["time", "seconds", "workers", "throughput"]


# The database.


async def test_a_locked_database_is_503_and_recovers(tmp_path: Path, clock: Clock, monkeypatch: Any) -> None:
    monkeypatch.setattr("edl.brain.sqlite.BUSY", 0.05)
    file = tmp_path / "brain.db"
    async with brain(SqliteDatabase(str(file)), clock=clock) as call:
        await call("POST", JOB, Beginning(CTR))
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        status, answer = await call("POST", f"{JOB}/reports", Report(samples=(Sample(1.0, 1.0, 1, 1.0),)))
        assert (status, answer["code"]) == (503, "unavailable")
        assert (await call("GET", JOB))[0] == 200, "reading goes on"
        other.execute("ROLLBACK")
        other.close()
        assert (await call("POST", f"{JOB}/reports", Report(samples=(Sample(1.0, 1.0, 1, 1.0),))))[0] == 200
        assert len((await call("GET", JOB))[1]["samples"]) == 1


async def test_a_database_that_is_taken_away_is_503_and_found_again(tmp_path: Path, clock: Clock) -> None:
    folder = tmp_path / "volume"
    async with brain(SqliteDatabase(str(folder / "brain.db")), clock=clock) as call:
        await call("POST", JOB, Beginning(CTR))
        folder.rename(tmp_path / "unmounted")
        for path, body in ((JOB, Beginning(CTR)), (f"{JOB}/reports", Report(samples=(Sample(1.0, 1.0, 1, 1.0),)))):
            assert (await call("POST", path, body))[0] == 503
        (tmp_path / "unmounted").rename(folder)
        assert (await call("GET", JOB))[0] == 200, "nothing was lost and nothing was made anew"


async def test_it_serves_before_its_database_does(tmp_path: Path, clock: Clock) -> None:
    database = SqliteDatabase(str(tmp_path / "brain.db"))
    async with brain(database, clock=clock, opened=False) as call:
        assert (await call("GET", "/healthz"))[0] == 200
        assert (await call("GET", "/readyz"))[0] == 503
        assert (await call("POST", JOB, Beginning(CTR)))[0] == 503
        await database.open()
        assert (await call("GET", "/readyz"))[0] == 200
        assert (await call("POST", JOB, Beginning(CTR)))[0] == 200


async def test_tables_of_the_first_version_are_brought_up_to_date(tmp_path: Path) -> None:
    file = tmp_path / "brain.db"
    old = sqlite3.connect(file)
    for statement in MIGRATIONS[0]:
        old.execute(statement.format(serial="INTEGER PRIMARY KEY AUTOINCREMENT"))
    old.execute("INSERT INTO jobs (job, features, created, updated) VALUES ('ns/old/u', '{}', 1, 1)")
    old.execute("PRAGMA user_version = 1")
    old.commit()
    old.close()
    store = Store(SqliteDatabase(str(file)))
    await store.open()
    await store.report("ns/old/u", (), (), (Incident("worker-0"),), now=2.0)
    history = await store.history("ns/old/u")
    assert history is not None
    assert len(history.incidents) == 1
    await store.close()


async def test_tables_of_the_future_are_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "brain.db"
    new = sqlite3.connect(file)
    new.execute("PRAGMA user_version = 99")
    new.close()
    database = SqliteDatabase(str(file))
    with pytest.raises(UnavailableError, match="version 99, newer than"):
        await database.open()
    await database.close()


async def test_what_was_answered_survives_kill_9(tmp_path: Path) -> None:
    """Another connection, which shares nothing with the first, sees everything while the first is still open."""
    first, second = (Store(SqliteDatabase(str(tmp_path / "brain.db"))) for _ in range(2))
    await first.open()
    await first.begin("ns/j/u", CTR, 1.0)
    await first.report("ns/j/u", [Sample(2.0, 1.0, 1, 1.0)], now=2.0)
    await second.open()
    history = await second.history("ns/j/u")
    assert history is not None
    assert len(history.samples) == 1
    await first.close()
    await second.close()
