"""`edl simulate --record`: what was simulated, in the history that Brain keeps of a real cluster."""

import asyncio
from pathlib import Path

import pytest

from edl.brain.history_store import HistoryStore
from edl.brain.sqlite import SqliteDatabase
from edl.cli.main import main
from edl.cli.output.recording import BEGAN, KIND_NAME, recording
from edl.ledger.report import PeriodReport
from edl.ledger.uses import CapacityUse, Use
from edl.protocol.history import ClusterPoint, HistoryLine, JobPast
from edl.scheduler.settings import Settings
from edl.scheduler.simulation.engine import Run, StuckError
from edl.scheduler.simulation.trace import ForeignLoad, NodeChange, Trace, TraceJob

WEEK = [
    TraceJob(
        name=f"job-{number}",
        submit=number * 997.0,
        duration=1800.0 + 413 * (number % 7),
        size=4,
        min=1 + 3 * (number % 3 == 0),
        max=8,
        pause=17.0 * (number % 4),
        namespace=f"team-{number % 3}",
    )
    for number in range(40)
]
NODES = tuple(f"node-{number}" for number in range(3))
CHANGES = (NodeChange(9000.0, ("node-2",), False), NodeChange(16000.0, ("node-2",), True))
FOREIGN = (ForeignLoad(4000.0, 5), ForeignLoad(12000.0, 0))


class Kept:
    """All that a file holds."""

    def __init__(self, file: Path) -> None:
        self.lines: dict[str, HistoryLine] = {}
        self.pasts: dict[str, JobPast] = {}
        self.cluster: list[ClusterPoint] = []
        self.report: PeriodReport = asyncio.run(self._read(SqliteDatabase(str(file))))

    async def _read(self, database: SqliteDatabase) -> PeriodReport:
        await database.open()
        store = HistoryStore(database)
        for line in await store.lines(since=0.0):
            self.lines[line.name] = line
            past = await store.past(line.namespace, line.name, line.uid)
            assert past is not None
            self.pasts[line.name] = past
        self.cluster = await store.cluster(0.0, 1e11)
        report = await store.report(0.0, 1e11, cluster=True)
        await database.close()
        return report


def recorded(tmp_path: Path, trace: Trace, policy: str = "cfs") -> tuple[Run, Kept]:
    file = tmp_path / "run.db"
    with recording(str(file), trace) as watch:
        run = Run(trace, Settings(policy=policy, max_load="1"), declares=False, clock=lambda: 0.0, watch=watch)
        run.run()
    return run, Kept(file)


@pytest.mark.parametrize("policy", ["cfs", "goodput"])
def test_every_second_of_the_simulation_is_in_the_ledger_once(tmp_path: Path, policy: str) -> None:
    run, kept = recorded(tmp_path, Trace(tuple(WEEK), NODES, 4, CHANGES, FOREIGN), policy)
    assert len(kept.lines) == len(run.jobs) == 40
    for job in run.jobs:
        line = kept.lines[job.trace.name]
        account, ended = line.account, job.ended or 0.0
        assert (line.kind, line.outcome, line.namespace) == (KIND_NAME, "succeeded", job.trace.namespace)
        assert (line.created, line.ended) == (BEGAN + job.trace.submit, BEGAN + ended)
        assert account.seconds == pytest.approx(ended - job.trace.submit)
        assert sum(spent.seconds for spent in account.spent.values()) == pytest.approx(account.seconds)
        assert account.held.gpus == pytest.approx(job.served)
        lost = account.of(Use.STARTING).amounts + account.of(Use.CHANGING).amounts
        if job.trace.min == 1:
            assert lost.gpus == pytest.approx(job.lost), "its pauses"
        else:
            assert lost.gpus >= job.lost - 1e-6, "and the time with too few instances to train"
        waited = account.of(Use.WAITING).seconds
        assert waited >= (job.started or 0.0) - job.trace.submit - 1e-6
    assert kept.lines["job-0"].account.of(Use.TRAINING).seconds > 0


def test_the_cluster_adds_up_and_says_who_used_it(tmp_path: Path) -> None:
    run, kept = recorded(tmp_path, Trace(tuple(WEEK), NODES, 4, CHANGES, FOREIGN))
    assert kept.report.observed == pytest.approx(run.now)
    assert kept.report.cluster[CapacityUse.JOBS].gpus == pytest.approx(sum(job.served for job in run.jobs))
    assert kept.report.capacity.gpus == pytest.approx(12 * run.now - 4 * 7000)
    assert kept.report.cluster[CapacityUse.OTHERS].gpus == pytest.approx(5 * 8000, rel=0.05)
    for point in kept.cluster:
        assert sum(one.gpus for one in point.uses.values()) == pytest.approx(point.capacity.gpus)
    assert {line.namespace for line in kept.report.namespaces} == {"team-0", "team-1", "team-2"}
    assert any(point.largest for point in kept.cluster)


def test_every_change_of_size_has_the_reason_of_the_plan(tmp_path: Path) -> None:
    run, kept = recorded(tmp_path, Trace(tuple(WEEK), NODES, 4, CHANGES))
    for job in run.jobs:
        past = kept.pasts[job.trace.name]
        assert all(change.reason and change.code for change in past.sizes)
        assert [change.before for change in past.sizes] == [0, *(change.to for change in past.sizes[:-1])]
        assert [change.time for change in past.sizes] == sorted({change.time for change in past.sizes})
        assert past.points[-1].done == past.points[-1].total
        assert f'"name":"{job.trace.name}"' in past.manifest
    assert any(len(past.sizes) > 3 for past in kept.pasts.values())
    assert any(len(past.accounts) > 1 for past in kept.pasts.values()), "one for each hour"


def test_a_run_that_is_stuck_leaves_no_file(tmp_path: Path) -> None:
    lost = (NodeChange(5.0, ("node-0",), False),)
    trace = Trace((TraceJob(name="a", submit=10.0, duration=10.0, size=4, min=4, max=4),), ("node-0",), 4, lost)
    with pytest.raises(StuckError):
        recorded(tmp_path, trace)
    assert list(tmp_path.iterdir()) == []


def test_the_command_writes_the_file_and_refuses_what_cannot_be_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, file = tmp_path / "trace.csv", tmp_path / "run.db"
    trace.write_text("submit_s,duration_s,num_gpus,name\n0,100,1,a\n5,100,2,b\n")
    words = ["simulate", "--jobs", str(trace), "--nodes", "1", "--record", str(file)]
    assert main(words) == 0
    assert set(Kept(file).lines) == {"a", "b"}
    capsys.readouterr()

    def refused(*more: str) -> str:
        assert main([*words, *more]) != 0
        return capsys.readouterr().err

    assert "is there already" in refused()
    assert "one --policy" in refused("--policy", "cfs,goodput")
    trace.write_text("submit_s,duration_s,num_gpus,name\n0,100,1,a b\n")
    assert "'a b' is no name" in refused("--record", str(tmp_path / "other.db"))
    assert "is there already" not in refused("--record", str(tmp_path / "other.db"))
