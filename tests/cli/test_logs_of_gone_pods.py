"""`edl logs` and `edl describe` of a job on a cluster whose pods are gone: from the Brain, from status, or in words."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edl import client
from edl.brain.log_store import LogStore
from edl.brain.server import Brain
from edl.brain.sqlite import SqliteDatabase
from edl.brain.store import Store
from edl.brain.tokens import mint
from edl.cli.connect.brain_logs import chosen
from edl.cli.connect.pod_logs import LogRange
from edl.cli.main import main
from edl.protocol.kept_logs import LogChunk
from tests.cli.conftest import Cluster
from tests.cli.test_jobs import PYTORCH, Output, make, pytorch_job, tidy

__all__ = ["tidy"]  # a fixture

KEY = b"a key for tests only"
STATUS = {
    "phase": "Running",
    "slots": [{"role": "worker", "peak": 2}],
    "endedPods": [
        {"pod": "gone-worker-1", "exitCode": 3, "message": "Traceback\nno data", "time": "2026-11-18T01:00:00Z"}
    ],
}
LINES = "2026-11-18T01:00:00.5Z step 1\n2026-11-18T01:00:07.5Z \x1b[31mstep\u2028 2\r\n"


@pytest.fixture
def kept(tidy: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """The job `gone` had two workers; a Brain has what worker 0 wrote."""
    uid = make(tidy, PYTORCH, pytorch_job("gone"), STATUS)["metadata"]["uid"]
    database = SqliteDatabase(str(tmp_path / "brain.db"))
    store = LogStore(database)

    async def serve() -> Any:
        await database.open()
        chunk = LogChunk(pod="gone-worker-0", number=1, lines=LINES)
        await store.add(("default", "gone", uid), chunk, 1.0)
        return await Brain(Store(database), KEY, logs=store).serve("127.0.0.1", 0)

    runner = tidy.do(serve())
    monkeypatch.setenv("EDL_BRAIN_URL", f"http://127.0.0.1:{runner.addresses[0][1]}")
    monkeypatch.setenv("EDL_BRAIN_TOKEN", mint(KEY, "@reader"))
    yield tidy
    tidy.do(runner.cleanup())
    tidy.do(database.close())


def test_the_brains_lines_come_first_then_last_words_then_what_is_gone(kept: Cluster, capsys: Output) -> None:
    assert kept.edl("logs", "gone") == 0
    out, said = capsys.readouterr()
    assert out.split("\n")[:2] == ["step 1", "\x1b[31mstep\u2028 2"]
    assert out.endswith("Traceback\nno data\n")
    assert "gone-worker-1 is gone (exit code 3); the end of what it wrote:" in said
    assert "gone with their pods: the logs of gone-worker-1\n" in said
    assert "a command of yours in an image of yours sends none" in said


def test_in_python_they_come_in_the_same_way_and_a_warning_says_what_is_gone(kept: Cluster) -> None:
    job = client.get("gone", kubeconfig=str(kept.config))
    with pytest.warns(UserWarning, match="gone with their pods: the logs of gone-worker-1: Brain has nothing of them"):
        assert list(job.logs()) == ["step 1", "\x1b[31mstep\u2028 2", "Traceback", "no data"]


def test_a_brain_that_is_away_is_named_and_status_still_speaks(
    kept: Cluster, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDL_BRAIN_URL", "http://127.0.0.1:1")
    assert kept.edl("logs", "gone") == 0
    out, said = capsys.readouterr()
    assert out == "Traceback\nno data\n"
    assert "the logs of gone-worker-0, gone-worker-1" in said
    assert "the Brain, which keeps logs of pods that are gone: ConnectionRefusedError" in said


def test_without_a_brain_it_says_what_is_gone(kept: Cluster, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EDL_BRAIN_URL")
    assert kept.edl("logs", "gone", "--pod", "gone-worker-0") == 0
    out, said = capsys.readouterr()
    assert out == ""
    assert "gone with their pods: the logs of gone-worker-0\n" in said
    assert "there is no Service edl-web in namespace edl-system; `edl install --web` brings it" in said
    assert "exec deploy/edl-brain -- edl brain logs default/gone" in said


def test_where_nothing_is_gone_nothing_is_said_of_a_brain(
    kept: Cluster, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EDL_BRAIN_URL")
    make(kept, PYTORCH, pytorch_job("waits"), {"phase": "Pending"})
    assert kept.edl("logs", "waits") == 1
    said = capsys.readouterr().err
    assert "waits has no pods now" in said
    assert "Brain" not in said


def test_the_brain_itself_is_asked_for_a_job_that_is_gone(kept: Cluster, capsys: Output) -> None:
    assert kept.edl("delete", "gone") == 0
    capsys.readouterr()
    assert main(["brain", "logs", "default/gone"]) == 0
    assert capsys.readouterr().out.startswith("step 1\n")
    assert main(["brain", "logs", "default/other"]) == 1
    assert "no log of default/other is kept" in capsys.readouterr().err


def test_describe_shows_how_pods_ended(kept: Cluster, capsys: Output) -> None:
    assert kept.edl("describe", "gone") == 0
    shown = capsys.readouterr().out
    assert "Pods that failed or were lost" in shown
    (row,) = [line for line in shown.splitlines() if "gone-worker-1" in line]
    assert "exit code 3" in row
    assert row.endswith("no data")


def test_a_part_of_a_kept_log_is_chosen_as_of_any_other() -> None:
    def texts(part: LogRange) -> list[str]:
        return [line.text for line in chosen("p", LINES, part)]

    assert texts(LogRange()) == ["step 1", "\x1b[31mstep\u2028 2"]
    assert texts(LogRange(tail=1)) == texts(LogRange(since="2026-11-18T01:00:01Z")) == ["\x1b[31mstep\u2028 2"]
    assert texts(LogRange(tail=0)) == []
