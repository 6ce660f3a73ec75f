"""`edl history` and `edl report` as users run them, against a Brain that serves."""

import csv
import io
import json
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec.structs import replace

from edl.brain.client import BrainClient, BrainRefusalError
from edl.brain.tokens import OPERATOR, READER, mint
from edl.cli.connect.brain import moment
from edl.cli.main import main
from edl.cli.output.period_report import as_csv, as_html, as_table
from edl.ledger.amounts import Amounts
from edl.ledger.booking import book, change_begins, opened, use_now
from edl.ledger.job_account import JobAccount, Spent
from edl.ledger.report import PeriodLine, PeriodReport
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
from tests.brain.test_command import home, start, url

__all__ = ["home", "url"]  # fixtures

HOUR = 3600.0


def lived(created: float) -> JobAccount:
    """Of four GPUs: a quarter of an hour in the queue, two hours of training, half an hour of changes."""
    account = opened(created)
    for use, hours in ((Use.WAITING, 0.25), (Use.TRAINING, 2.0), (Use.CHANGING, 0.5)):
        account = book(use_now(account, use, {use: Amounts(2, 4, 8, 16)}), hours * HOUR)
    return change_begins(account).account


def told(now: float) -> HistoryBatch:
    created = now - 3 * HOUR
    line = HistoryLine(
        uid="u1",
        kind="trainingjobs.paddlepaddle.org",
        namespace="default",
        name="mnist",
        created=created,
        updated=now - 60,
        ended=now - 60,
        outcome="failed",
        phase="failed",
        reason="=cmd() <b>out of memory</b>",
        account=lived(created),
    )
    news = JobNews(
        job=line,
        sizes=(SizeChange(created + 900, 0, 2, "Started", "+2: starts with its minimum"),),
        points=(ProgressPoint(created + 1000, 2, 2, done=5, loss=0.7), ProgressPoint(created + 2000, 2, 2, done=9)),
        events=(KeptEvent(created + 901, "Warning", "Failed", "\x1b[31mit failed"),),
        last_lines="Traceback\nMemoryError",
    )
    other = replace(news, job=replace(line, uid="u2", namespace="team-a", name="other", outcome="", ended=None))
    uses = {CapacityUse.JOBS: Amounts(2, 4, 8), CapacityUse.FREE: Amounts(0, 3, 2), CapacityUse.QUOTA: Amounts(0, 1)}
    times = [created + 60 * number for number in range(150)]
    points = [ClusterPoint(time=one, seconds=60, capacity=Amounts(2, 8, 10), uses=uses) for one in times]
    return HistoryBatch((news, other), tuple(points))


@pytest.fixture
def full(url: str, home: Path) -> BrainClient:
    key = (home / "brain.key").read_bytes()
    client = BrainClient(url, mint(key, OPERATOR), timeout=30)
    client.add_history(told(time.time()))
    return client


def test_a_job_that_is_deleted_is_listed_and_shown(full: BrainClient, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history"]) == 0
    shown = capsys.readouterr().out
    assert "default/mnist" in shown
    assert "team-a/other" in shown
    assert "80%" in shown, "goodput"
    assert main(["history", "mnist"]) == 0
    shown = capsys.readouterr().out
    for words in ("0 -> 2", "starts with its minimum", "training", "MemoryError", "Warning", "2 points"):
        assert words in shown, words
    assert "\x1b" not in shown
    assert main(["history", "-n", "team-a", "-o", "json"]) == 0
    assert [line["name"] for line in json.loads(capsys.readouterr().out)] == ["other"]
    assert main(["history", "default/mnist/u1", "-o", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(row["done"], row["loss"]) for row in rows] == [("5", "0.7"), ("9", "")]
    assert main(["history", "-o", "csv"]) == 0
    first = next(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert first["reason"].startswith("'=cmd()"), "no spreadsheet computes what a job says"
    assert float(first["gpu_seconds"]) == 10 * HOUR


def test_a_report_says_who_used_what(full: BrainClient, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--since", "1d"]) == 0
    shown = capsys.readouterr().out
    for words in ("jobs", "quota", "50%", "team-a", "80%", "15m", "2.0 GPU-h", "Capacity was observed for"):
        assert words in shown, words
    assert main(["report", "--since", "1d", "-o", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {line["namespace"] for line in report["namespaces"]} == {"default", "team-a"}
    assert main(["report", "--since", "1d", "-n", "team-a", "-o", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {row["name"] for row in rows} == {"other"}
    assert sum(float(row["gpu_seconds"]) for row in rows) == pytest.approx(11 * HOUR)


def test_what_is_wrong_is_said_with_the_fix(url: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history"]) == 0
    assert capsys.readouterr().out == "no job is in the history yet\n"
    assert main(["report", "--since", "1d"]) == 0
    assert "nothing was booked" in capsys.readouterr().out
    for words, said in (
        (["history", "nothing"], "no history of default/nothing is kept"),
        (["history", "a/b/c/d"], "NAMESPACE/NAME/UID"),
        (["report", "--since", "soon"], "it must be as 7d, 12h, 90m, or a date"),
        (["report", "--since", "1h", "--until", "2h"], "is not before"),
        (["history", "--url", "http://127.0.0.1:1"], "`edl get` and `edl describe` show what the cluster itself knows"),
    ):
        assert main(words) != 0
        assert said in capsys.readouterr().err, words
    (home / "brain.key").rename(home / "away")
    assert main(["report"]) != 0
    assert "no Brain was ever started here" in capsys.readouterr().err


def test_a_token_of_a_reader_reads_and_does_nothing_else(full: BrainClient, url: str, home: Path) -> None:
    reader = BrainClient(url, mint((home / "brain.key").read_bytes(), READER), timeout=30)
    assert len(reader.history()) == 2
    assert reader.past("default/mnist").job.uid == "u1"
    assert len(reader.cluster_history(since=0, until=time.time(), points=10)) == 10
    with pytest.raises(BrainRefusalError, match="403"):
        reader.add_history(HistoryBatch())


def test_the_history_is_there_after_the_brain_was_killed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process, address = start(home)
    key = (home / "brain.key").read_bytes()
    BrainClient(address, mint(key, OPERATOR), timeout=30).add_history(told(time.time()))
    process.kill()
    process.wait(30)
    again, address = start(home, "--history-days", "1", "--history-mib", "1")
    try:
        assert BrainClient(address, mint(key, READER), timeout=30).past("default/mnist").job.outcome == "failed"
    finally:
        for one in (process, again):
            one.kill()
            one.wait(30)
            assert one.stdout is not None
            one.stdout.close()


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.add(tag)


def test_a_page_has_no_tag_that_a_job_wrote_and_nothing_from_elsewhere() -> None:
    spent = {Use.TRAINING: Spent(60, Amounts(1, 1))}
    line = PeriodLine(namespace="<script>x</script>", name='"><img src=x>', spent=spent)
    report = PeriodReport(since=0, until=60, namespaces=(line,), jobs=(line,))
    tags = Tags()
    tags.feed(as_html(report))
    assert tags.found.isdisjoint({"script", "img", "link"})
    assert "http" not in as_html(report)
    assert "<script>" in as_table(report)
    assert as_csv(report).splitlines()[1].endswith("training,60,1,1,0.0,0.0")


def test_times_are_read_as_people_write_them() -> None:
    assert moment("7d", 1e6) == 1e6 - 7 * 86_400
    assert moment("2w", 1e7) == 1e7 - 14 * 86_400
    assert moment("90m", 1e6) == 1e6 - 5400
    assert moment("1970-01-02", 1e6) == 86_400
    assert moment("1970-01-02T00:00:00+01:00", 1e6) == 86_400 - 3600
