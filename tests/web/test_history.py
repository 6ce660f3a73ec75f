"""What Brain kept: curves from before the page began to watch, accounts, and jobs that are deleted; as rights allow."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from edl.brain.sqlite import SqliteDatabase
from edl.brain.tokens import READER, mint
from edl.ledger.amounts import Amounts
from edl.ledger.job_account import JobAccount, Spent
from edl.ledger.uses import CapacityUse, Use
from edl.protocol.history import (
    ClusterPoint,
    HistoryBatch,
    HistoryLine,
    JobNews,
    KeptEvent,
    ProgressPoint,
    SizeChange,
)
from edl.web.model.history import BrainHistory
from edl.web.types import ClusterView, JobDetail, PastJobs
from tests.brain.serving import KEY, Caller, brain
from tests.web.world import KIND, World, only_in, world

NOW = 1_700_000_000.0


def news(name: str, namespace: str = "default", outcome: str = "deleted", uid: str = "") -> JobNews:
    used = Amounts(instances=300.0, gpus=0.0, cores=300.0)
    account = JobAccount(NOW, NOW + 100, {Use.TRAINING: Spent(75.0, used), Use.IDLE: Spent(25.0, Amounts(100.0))})
    line = HistoryLine(
        uid=uid or f"u-{name}", kind=KIND, namespace=namespace, name=name, created=NOW, updated=NOW + 100,
        ended=NOW + 100, outcome=outcome,
        phase="Failed" if outcome == "failed" else "Running", reason="its last words", size=3, target=3,
        account=account,
    )  # fmt: skip
    return JobNews(
        job=line,
        manifest='{"kind": "TrainingJob", "metadata": {"name": "old"}}',
        last_lines="Traceback: out of luck",
        sizes=(SizeChange(NOW + 1, 0, 3, "Room", "+3: room was free"),),
        points=(ProgressPoint(NOW + 10, 3, 3, loss=2.0, throughput=50.0), ProgressPoint(NOW + 20, 3, 3, loss=1.0)),
        events=(KeptEvent(NOW + 5, "Normal", "ScaledUp", "trainers 0 -> 3"),),
    )


@contextlib.asynccontextmanager
async def remembering(tmp_path: Path) -> AsyncIterator[tuple[World, Caller]]:
    async with brain(SqliteDatabase(str(tmp_path / "brain.db")), clock=lambda: NOW + 1000) as caller:
        history = BrainHistory(caller.url, lambda: mint(KEY, READER), clock=lambda: NOW + 1000, fresh=0.0)
        async with world(history=history) as there:
            yield there, caller


async def test_a_deleted_job_keeps_its_page_curves_and_account(tmp_path: Path) -> None:
    async with remembering(tmp_path) as (there, caller):
        assert (await there.get(f"jobs/{KIND}/default/old"))[0] == 404
        assert await caller("POST", "/v1/history", HistoryBatch((news("old", outcome="failed"),))) == (200, {})
        status, found = await there.get(f"jobs/{KIND}/default/old")
        assert status == 200
        detail = msgspec.convert(found, JobDetail)
        assert not detail.present
        assert [one for one in detail.points.loss if one is not None] == [2.0, 1.0]
        assert detail.points.target == [0, 3, 3, 3]
        assert [(one.before, one.to) for one in detail.decisions] == [(0, 3)]
        assert {one.use: one.seconds for one in detail.account} == {"training": 300.0, "idle": 100.0}
        assert detail.goodput is not None
        assert detail.cause is not None
        assert detail.cause.message == "Traceback: out of luck"
        events = (await there.get(f"jobs/{KIND}/default/old/events"))[1]["events"]
        assert [one["reason"] for one in events] == ["ScaledUp"]
        assert "name: old" in (await there.get(f"jobs/{KIND}/default/old/manifest"))[1]["yaml"]
        rows = msgspec.convert((await there.get("past"))[1], PastJobs).rows
        assert [(row.name, row.state) for row in rows] == [("old", "failed")]


async def test_a_job_that_is_there_has_its_curve_from_the_beginning(tmp_path: Path) -> None:
    async with remembering(tmp_path) as (there, caller):
        made = await there.job("a")
        await there.shown("a")
        await caller("POST", "/v1/history", HistoryBatch((news("a", outcome="", uid=made["metadata"]["uid"]),)))
        detail = msgspec.convert((await there.get(f"jobs/{KIND}/default/a"))[1], JobDetail)
        assert detail.present
        assert [loss for loss in detail.points.loss if loss is not None] == [2.0, 1.0]
        assert detail.points.time == sorted(detail.points.time)
        assert detail.points.time[-1] > NOW + 1000
        assert detail.missing == []
        assert (await there.get("past"))[1]["rows"] == []


async def test_a_new_job_of_an_old_name_has_a_curve_of_its_own(tmp_path: Path) -> None:
    async with remembering(tmp_path) as (there, caller):
        await caller("POST", "/v1/history", HistoryBatch((news("a"),)))
        await there.job("a")
        await there.shown("a")
        detail = msgspec.convert((await there.get(f"jobs/{KIND}/default/a"))[1], JobDetail)
        assert (detail.present, detail.decisions, detail.account) == (True, [], [])
        assert set(detail.points.loss) == {None}


async def test_history_of_others_is_not_shown(tmp_path: Path) -> None:
    async with remembering(tmp_path) as (there, caller):
        await caller("POST", "/v1/history", HistoryBatch((news("mine", "red"), news("theirs", "blue"))))
        there.api.users["rita"] = only_in("red")
        rows = (await there.get("past", token="rita"))[1]["rows"]
        assert [row["name"] for row in rows] == ["mine"]
        assert (await there.get(f"jobs/{KIND}/red/mine", token="rita"))[0] == 200
        for more in ("", "/events", "/manifest"):
            status, found = await there.get(f"jobs/{KIND}/blue/theirs{more}", token="rita")
            assert (status, found["code"]) == (404, "not-found")


async def test_the_cluster_shows_why_free_capacity_is_of_no_use(tmp_path: Path) -> None:
    async with remembering(tmp_path) as (there, caller):
        uses = {
            CapacityUse.JOBS: Amounts(gpus=5.0),
            CapacityUse.FRAGMENTATION: Amounts(gpus=2.0),
            CapacityUse.FREE: Amounts(gpus=1.0),
        }
        point = ClusterPoint(
            time=NOW + 60, seconds=60.0, capacity=Amounts(gpus=8.0), uses=uses, largest={"default/a": Amounts(gpus=4.0)}
        )
        assert (await caller("POST", "/v1/history", HistoryBatch((), (point,))))[0] == 200
        there.state.wake()
        first = msgspec.convert((await there.get("cluster"))[1], ClusterView).samples[0]
        assert (first.capacity[2], first.rest[2], first.unusable["fragmentation"][2]) == (8.0, 1.0, 2.0)
        assert [(one.key, one.used[2]) for one in first.holders] == [("-/default/a", 4.0)]


async def test_a_brain_that_is_away_is_said_and_costs_nothing_else() -> None:
    history = BrainHistory("http://127.0.0.1:9", lambda: mint(KEY, READER), fresh=0.0)
    async with world(history=history) as there:
        await there.job("a")
        await there.shown("a")
        status, found = await there.get(f"jobs/{KIND}/default/a")
        assert status == 200
        assert any("Brain does not answer" in note for note in found["missing"])
        status, found = await there.get("cluster")
        assert status == 200
        assert any("Brain does not answer" in note for note in found["missing"])
        assert (await there.get("past"))[1] == {"rows": []}
