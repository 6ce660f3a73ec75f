"""A trainer and its Brain while the database is locked or gone for a minute: plans go on, and every sample arrives."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edl.brain.client import BrainClient
from edl.brain.sqlite import SqliteDatabase
from edl.brain.tokens import mint
from edl.protocol.job_facts import JobFacts, PlanRecord, ResourcePlan, Sample
from edl.runtime.easydl_trainer.advisor import Advisor
from tests.brain.serving import KEY, brain
from tests.brain.simulated import roles
from tests.brain.test_server import CTR, Clock

Away = Callable[[Path], contextlib.AbstractContextManager[None]]
PERIOD = 30.0


@contextlib.contextmanager
def locked(file: Path) -> Iterator[None]:
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


@contextlib.contextmanager
def unmounted(file: Path) -> Iterator[None]:
    elsewhere = file.parent.with_name("elsewhere")
    file.parent.rename(elsewhere)
    try:
        yield
    finally:
        elsewhere.rename(file.parent)


@pytest.mark.parametrize("away", [locked, unmounted])
async def test_a_minute_without_the_database_costs_nothing(
    away: Away, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("edl.brain.sqlite.BUSY", 0.05)
    clock, file = Clock(), tmp_path / "volume" / "brain.db"
    caplog.set_level("INFO")
    async with brain(SqliteDatabase(str(file)), clock=clock) as call:
        client = BrainClient(call.url, mint(KEY, "ns/first"), timeout=30)
        advisor = Advisor(lambda: client, "ns/first/u1")
        plan, source = await asyncio.to_thread(advisor.start, CTR, None)
        assert source == "brain"
        records, samples = (PlanRecord(1, clock.now, plan),), tuple[Sample, ...]()

        async def period() -> str:
            nonlocal samples
            clock.now += PERIOD
            samples = (*samples, Sample(clock.now, PERIOD - 1, 2, 20.0, 1))
            facts = JobFacts(features=CTR, present=plan.roles, granted={"worker": 2}, samples=samples, plans=records)
            return (await asyncio.to_thread(advisor.next, facts, {}, clock.now)).source

        assert await period() == "brain"
        with away(file):
            assert [await period() for _ in range(int(60 / PERIOD))] == ["local", "local"]
        assert caplog.text.count("the Brain is not followed (503") == 1, "said once"
        assert await period() == "brain"
        _, detail = await call("GET", "/v1/jobs/ns/first")
        assert [sample["time"] for sample in detail["samples"]] == [sample.time for sample in samples]
        client.close()


async def test_a_brain_that_is_made_anew_learns_of_a_job_that_runs(tmp_path: Path) -> None:
    """Its volume is lost for good: the trainer introduces itself again and tells all that it has."""
    clock, samples = Clock(), (Sample(5.0, 4.0, 2, 20.0, 1), Sample(9.0, 4.0, 2, 20.0, 1))
    async with brain(SqliteDatabase(str(tmp_path / "brain.db")), clock=clock) as call:
        client = BrainClient(call.url, mint(KEY, "ns/first"), timeout=30)
        advisor = Advisor(lambda: client, "ns/first/u1")
        records = (PlanRecord(1, 1.0, ResourcePlan("start-cold", "small", roles(2))),)
        facts = JobFacts(features=CTR, present=roles(2), granted={"worker": 2}, samples=samples, plans=records)
        assert (await asyncio.to_thread(advisor.next, facts, {}, clock.now)).source == "brain"
        _, detail = await call("GET", "/v1/jobs/ns/first")
        assert (len(detail["samples"]), len(detail["plans"])) == (2, 1)
        client.close()
