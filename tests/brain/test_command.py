"""`edl brain` as a user runs it: a process that serves, questions, tokens, and words when something is wrong."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from edl.brain.client import BrainClient, BrainDownError, BrainRefusalError
from edl.brain.tokens import mint
from edl.cli.main import main
from edl.protocol.brain import Beginning, Ending, Report
from edl.protocol.job_facts import Features, PlanRecord, ResourcePlan, Sample
from tests.brain.simulated import roles

FEATURES = Features(program="python ctr.py", batch=64)


def start(home: Path, *words: str) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "edl.cli.main", "brain", "--listen", "127.0.0.1:0", *words],
        env={**os.environ, "EDL_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    return process, process.stdout.readline().removeprefix("brain: ").strip()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EDL_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def url(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    process, url = start(home)
    monkeypatch.setenv("EDL_BRAIN_URL", url)
    yield url
    process.terminate()
    assert process.wait(30) == 0
    assert process.stdout is not None
    process.stdout.close()


def test_it_is_asked_shown_and_remembers(url: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = (home / "brain.key").read_bytes()
    assert (home / "brain.key").stat().st_mode & 0o077 == 0
    assert main(["brain", "jobs"]) == 0
    assert capsys.readouterr().out == "no job has asked this Brain yet\n"
    client = BrainClient(url, mint(key, "*"), timeout=30)
    client.begin("ns/ctr/u", Beginning(FEATURES))
    record = PlanRecord(1, 5.0, ResourcePlan("start-cold", "small", roles(3, 1)), 0.0, 30.0, "safety")
    client.report("ns/ctr/u", Report(samples=(Sample(10.0, 5.0, 3, 30.0, 1),), plans=(record,)))
    client.end("ns/ctr/u", Ending("succeeded"))
    assert main(["brain", "jobs"]) == 0
    assert "ns/ctr" in capsys.readouterr().out
    assert main(["brain", "show", "ns/ctr"]) == 0
    assert "start-cold: small" in capsys.readouterr().out
    (home / "features.json").write_bytes(msgspec.json.encode(FEATURES))
    assert main(["brain", "plan", "-f", str(home / "features.json")]) == 0
    asked = json.loads(capsys.readouterr().out)
    assert (asked["rule"], asked["roles"]["worker"]["replicas"]) == ("start-similar", 3)
    evil = Features(program="a\x1b]0;owned\x07b")
    client.begin("ns/evil/u", Beginning(evil))
    assert main(["brain", "show", "ns/evil"]) == 0
    assert "Program:  a\\x1b]0;owned\\x07b" in capsys.readouterr().out
    with pytest.raises(BrainRefusalError, match="403 foreign"):
        BrainClient(url, mint(key, "ns/other")).job("ns/ctr")
    with pytest.raises(BrainRefusalError, match="404"):
        client.job("ns/nobody")


def test_what_was_learned_is_read_from_the_database_where_no_brain_runs(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "features.json").write_bytes(msgspec.json.encode(FEATURES))
    assert main(["brain", "plan", "-f", str(home / "features.json")]) == 0
    assert json.loads(capsys.readouterr().out)["rule"] == "start-cold"
    assert not (home / "brain.db").exists(), "asking makes nothing"


def test_a_slip_in_a_feature_is_told(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "features.json").write_text('{"programme": "python ctr.py"}')
    assert main(["brain", "plan", "-f", str(home / "features.json")]) == 1
    assert "'programme' is no feature; features are strategy, program, image" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["brain", "plan", "--help"])
    reported = capsys.readouterr().out
    assert all(f"\n  {feature} " in reported for feature in Features.__struct_fields__)


def test_tokens_are_made_for_a_while_or_for_ever(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["brain", "token", "ns/*", "--for", "24h"]) == 0
    assert capsys.readouterr().out.startswith("edlb1.")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["brain", "--listen", "nowhere"], "--listen is 'nowhere', it must be HOST:PORT"),
        (["brain", "--database", "mysql://x"], "database is 'mysql://x'"),
        (["brain", "--key", "absent.key"], "absent.key cannot be read"),
        (["brain", "plan", "-f", "absent.json"], "absent.json cannot be read"),
        (["brain", "jobs", "--url", "http://127.0.0.1:1", "--token", "t"], "the Brain does not answer"),
        (["brain", "jobs", "--url", "ftp://x", "--token", "t"], "it must be http(s)://host:port"),
        (["brain", "token", "a", "--for", "soon"], "wants a duration"),
        (["brain", "token", "a"], "subject is 'a', it must be namespace/name"),
        (["brain", "jobs"], "no Brain was ever started here"),
        (["brain", "show", "ctr", "--token", "t"], "'ctr' is no job: wants NAMESPACE/NAME"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    words: list[str], said: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 1
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_settings_from_a_file_and_its_mistakes(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "features.json").write_text("{}")
    (home / "settings.json").write_text('{"cold_workers": 5}')
    words = ["brain", "--settings", str(home / "settings.json"), "plan", "-f", str(home / "features.json")]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["roles"]["worker"]["replicas"] == 5
    (home / "settings.json").write_text('{"cold_workers": "many"}')
    assert main(words) == 1
    assert "$.cold_workers" in capsys.readouterr().err


def test_a_client_takes_nonsense_for_absence() -> None:
    client = BrainClient("http://127.0.0.1:1", "t", timeout=1)
    with pytest.raises(BrainDownError):
        client.jobs()
