"""Following a job: news as text, the screen in a terminal, and silence when nothing changes."""

import asyncio
import base64
import io
import os
import pty
import re
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from rich.console import Console

from edl.cli.commands.jobs.describe import render as render_description
from edl.cli.connect.jobs import JobSummary, summarize
from edl.cli.connect.progress import ProgressReader, _Endpoint
from edl.cli.errors import CommandError
from edl.cli.output.follow import follow
from edl.cli.output.live import (
    JobSnapshot,
    PlainScreen,
    RichScreen,
    changes,
    count,
    dots,
    duration,
    numbers,
    open_screen,
    sparkline,
)
from edl.jobs.registry import TRAINING_JOB
from edl.kube.rest.decoding import Page
from edl.kube.rest.errors import ApiError, ConnectionLostError, Status
from edl.kube.rest.transport import Request, Response
from edl.protocol.progress import LastProgress


def job(
    phase: str = "running", now: int = 2, target: int = 4, history: tuple[Any, ...] = (), **more: Any
) -> JobSummary:
    scale = {"current": now, "target": target, "reason": "because", "history": list(history), **more}
    raw = {
        "metadata": {"name": "a", "namespace": "default", "uid": "u"},
        "spec": {"trainer": {"min-instance": 2, "max-instance": 6}},
        "status": {"phase": phase, "scale_status": scale},
    }
    return summarize(TRAINING_JOB, raw)


FIRST = {"from": None, "to": 2, "reason": "starts"}
SECOND = {"from": 2, "to": 4, "reason": "room"}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (None, job(history=(FIRST,)), ["running", "size 0 -> 2: starts"]),
        (job(history=(FIRST,)), job(history=(FIRST, SECOND)), ["size 2 -> 4: room"]),
        (job(), job(history=(FIRST, SECOND)), ["size 0 -> 2: starts", "size 2 -> 4: room"]),
        (job(), job(reason="holds 4: frozen"), ["holds 4: frozen"]),
        (job("scaling"), job("running"), ["running"]),
        (job(), job(), []),
    ],
    ids=["first", "scaled", "two at once", "another reason", "phase", "nothing"],
)
def test_only_what_is_new_is_said(before: JobSummary | None, after: JobSummary, said: list[str]) -> None:
    assert changes(before, after) == said


def test_numbers_leave_out_what_nobody_knows() -> None:
    assert numbers(JobSnapshot(job())) == ["size 2/4"]
    known = LastProgress(throughput=1234.0, loss=0.25, pass_index=2, passes=5, done=30, total=100)
    assert numbers(JobSnapshot(job(), known, 61.0)) == [
        "size 2/4",
        "pass 2/5",
        "30 %",
        "loss 0.25",
        "1.2k samples/s",
        "1 min 01 s left",
    ]
    assert numbers(JobSnapshot(job("succeeded"), known, 61.0))[-1] == "loss 0.25"


def test_describe_says_how_training_goes() -> None:
    said = render_description(job(), [], [], 0.0, LastProgress(loss=0.25, pass_index=2, passes=5, age=3.0))
    assert "Training: pass 2/5, loss 0.25 (3 s ago)" in said


def test_describe_says_what_a_finished_job_has_reached() -> None:
    ended = job("succeeded")
    reached = {"shown": "100%", "done": 600, "total": 600, "loss": 0.25, "mean": 1234.5, "seconds": 61.0, "epoch": 3.0}
    raw = {**ended.raw, "status": {**ended.status, "progress": reached}}
    said = render_description(summarize(TRAINING_JOB, raw), [], [], 0.0)
    assert "Reached:  100%, 600 of 600 steps, epoch 3, loss 0.25, 1.2k samples/s on average, in 1 min 01 s" in said


def test_units() -> None:
    assert [count(number) for number in (0, 999, 1500, 2.5e6, 3e9)] == ["0", "999", "1.5k", "2.5M", "3.0G"]
    assert [count(number) for number in (0.3, 9.96, 12.4)] == ["0.3", "10.0", "12"]
    assert [duration(seconds) for seconds in (0.4, 59.4, 60, 3700)] == ["0 s", "59 s", "1 min 00 s", "1 h 01 min"]


def test_dots_and_sparks() -> None:
    assert dots(job(now=2, target=4)) == "●●◌◌··"
    assert dots(job(now=5, target=3)) == "●●●◍◍·"
    assert dots(job(now=1, target=99)) == ""
    assert sparkline([]) == ""
    assert sparkline([1.0, 1.0]) == "▁▁"
    assert sparkline([3.0, 2.0, 1.0])[0] == "█"
    assert len(sparkline([float(value) for value in range(1000)], width=16)) == 16


@pytest.mark.parametrize(
    ("url", "here", "proxied"),
    [
        ("https://127.0.0.1:9", True, None),
        ("https://[::1]:9", True, None),
        ("https://localhost:9", True, None),
        (
            "https://edl-job-service.edl-system.svc:8443",
            False,
            "/api/v1/namespaces/edl-system/services/https:edl-job-service:8443/proxy",
        ),
    ],
)
def test_where_the_job_service_is_asked(url: str, here: bool, proxied: str | None) -> None:
    door = _Endpoint(url, "t", "")
    assert door.on_this_machine is here
    if proxied:
        assert door.proxied == proxied


def test_plain_lines_come_when_numbers_change_and_not_too_often(capsys: pytest.CaptureFixture[str]) -> None:
    screen = PlainScreen(every=1000.0)
    for done in (1, 2, 3):
        screen.show([JobSnapshot(job(), LastProgress(done=done, total=100))])
    screen.show([JobSnapshot(job("succeeded"), LastProgress(done=100, total=100))])
    lines = [line.partition(" ")[2] for line in capsys.readouterr().out.splitlines()]
    assert lines == ["a: size 2/4, step 1/100, 1 %", "a: size 2/4, step 100/100, 100 %"]


def test_a_terminal_shows_a_table_that_stays_and_escapes_what_jobs_say() -> None:
    file = io.StringIO()
    screen = RichScreen(Console(file=file, force_terminal=True, width=120, color_system=None))
    screen.news("a", "waits: [red]no room[/]")
    screen.show(
        [JobSnapshot(job(), LastProgress(loss=0.5, done=1, total=2, pass_index=1, passes=2), 3.0, (2.0, 1.0, 0.5))]
    )
    screen.close()
    shown = file.getvalue()
    assert "[red]no room[/]" in shown
    for words in ("2/4 ●●◌◌··", "pass 1/2", "0.5", "3 s"):
        assert words in shown


STEPS = LastProgress(done=252, total=600, loss=0.31, throughput=1234.0, epoch=1.5, rate=3.0)


@pytest.mark.parametrize("width", [40, 60, 79, 80, 100, 119, 120, 160, 200])
def test_a_terminal_of_any_width_shows_size_progress_loss_and_time_left(width: int) -> None:
    file = io.StringIO()
    screen = RichScreen(Console(file=file, force_terminal=True, width=width, color_system=None))
    long = msgspec.structs.replace(job(now=100, target=128), name="a-name-" * 8)
    screen.show([JobSnapshot(long, STEPS, 7261.0, (0.5, 0.4, 0.31))])
    screen.close()
    rows = file.getvalue().splitlines()
    for words in ("100/128", "42%", "0.31", "2 h 01 min"):
        assert any(words in row for row in rows), (words, rows)


def test_log_lines_are_above_the_table_and_mean_nothing_to_the_terminal() -> None:
    file = io.StringIO()
    screen = RichScreen(Console(file=file, force_terminal=True, width=80, color_system=None))
    screen.show([JobSnapshot(job(), STEPS, 61.0)])
    screen.lines("", ["[bold]not markup[/]", "a bell \x07 and \x1b[2J a wipe", "\ufffd\ufffd"])
    screen.close()
    shown = file.getvalue()
    assert shown.index("[bold]not markup[/]") < shown.rindex("42%")
    assert "a bell \\x07 and \\x1b[2J a wipe" in shown


@pytest.mark.parametrize(("term", "screen"), [("dumb", PlainScreen), ("", PlainScreen), ("xterm", RichScreen)])
def test_a_terminal_that_cannot_renew_gets_lines(term: str, screen: type[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    opened = open_screen()
    opened.close()
    assert isinstance(opened, screen)


class Expired:
    """A job that was read once, before the token ran out."""

    def __init__(self) -> None:
        self.last = JobSnapshot(job("running"))

    async def refresh(self) -> JobSnapshot:
        raise ApiError(Status(code=401, reason="Unauthorized", message="Unauthorized"))


async def test_a_token_that_expires_is_said_with_the_way_back() -> None:
    watched: Any = Expired()
    with pytest.raises(CommandError, match=r"credentials any more \(Unauthorized\).*`edl attach .*` shows them"):
        await follow([watched], PlainScreen(), asyncio.Event(), every=0.01)


@pytest.mark.parametrize("setting", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_color_means_none(setting: dict[str, str]) -> None:
    """In a real terminal, of which a command takes the size and the abilities."""
    program = "from edl.cli.output.live import open_screen; s = open_screen(); s.news('j', 'x'); s.close()"
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", **setting}
    subprocess.run([sys.executable, "-c", program], stdout=theirs, env=env, check=True, timeout=60)
    os.close(theirs)
    shown = os.read(ours, 65536)
    os.close(ours)
    assert b"x" in shown
    assert re.search(rb"\x1b\[[0-9;]*3[0-9]m", shown) is None


class Flaky:
    """A job that cannot be read twice, then can, then has ended."""

    def __init__(self) -> None:
        self.snapshots = 0
        self.last = JobSnapshot(job())

    async def refresh(self) -> JobSnapshot:
        self.snapshots += 1
        if self.snapshots <= 2:
            raise ConnectionLostError("gone")
        self.last = JobSnapshot(job("running" if self.snapshots == 3 else "succeeded"))
        return self.last

    def news(self) -> list[str]:
        return [self.last.job.phase]

    def lines(self) -> list[str]:
        return []


async def test_a_cluster_that_does_not_answer_for_a_while_ends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    flaky = Flaky()
    await follow([flaky], PlainScreen(), asyncio.Event(), every=0.001)  # type: ignore[list-item]  # all it needs
    said = capsys.readouterr().out
    assert flaky.snapshots == 4
    assert said.count("does not answer") == 1, "said once, not for every try"
    assert "succeeded" in said


URL = "EDL_SERVICE_URL"
SERVICE = "https://edl-job-service.edl-system.svc:8443"
SECRETS = {
    "a-tj-token": {"token": "secret", "ca.crt": ""},
    "a-tj-0123456789": {"EDL_SERVICE_URL": SERVICE, "EDL_JOB_TOKEN": "secret", "EDL_SERVICE_CA": ""},
}
SHARING = {"envFrom": [{"secretRef": {"name": "of-somebody-else"}}, {"secretRef": {"name": "a-tj-0123456789"}}]}
NAMING = {
    "env": [
        {"name": URL, "value": SERVICE},
        {"name": "EDL_JOB_TOKEN", "valueFrom": {"secretKeyRef": {"name": "a-tj-token", "key": "token"}}},
        {"name": "EDL_SERVICE_CA", "valueFrom": {"secretKeyRef": {"name": "a-tj-token", "key": "ca.crt"}}},
    ]
}


class FarCluster:
    """A cluster whose job service is reached through the API server alone. `container`: of the job's first pod."""

    def __init__(self, answer: bytes | Exception, container: dict[str, Any] = SHARING) -> None:
        self.answer, self.container = answer, container
        self.asked: list[tuple[str, dict[str, str]]] = []

    async def list(self, resource: Any, **_: Any) -> Page[Any]:
        metadata = {"name": "a-0", "ownerReferences": [{"kind": "TrainingJob", "uid": "u", "controller": True}]}
        stranger = {
            "metadata": {"name": "0"},
            "spec": {"containers": [{"env": [{"name": URL, "value": "https://evil"}]}]},
        }
        return Page([stranger, {"metadata": metadata, "spec": {"containers": [self.container]}}], "1")

    async def get(self, resource: Any, name: str, **_: Any) -> Any:
        return {"data": {key: base64.b64encode(value.encode()).decode() for key, value in SECRETS[name].items()}}

    async def raw(self, request: Request, *, timeout: float) -> Response:
        self.asked.append((request.path, dict(request.headers)))
        if isinstance(self.answer, Exception):
            raise self.answer
        return Response(200, self.answer)


@pytest.mark.parametrize("container", [SHARING, NAMING], ids=["shared", "by name"])
async def test_far_away_the_api_server_carries_the_question_with_the_jobs_token(container: dict[str, Any]) -> None:
    cluster = FarCluster(b'{"phase": "running", "progress": {"loss": 0.5, "age": 1.0}}', container)
    reader = ProgressReader(cluster, TRAINING_JOB, "ns", "a", uid="u")  # type: ignore[arg-type]  # all it needs
    assert await reader.read() == LastProgress(loss=0.5, age=1.0)
    place = "/api/v1/namespaces/edl-system/services/https:edl-job-service:8443/proxy/v1/jobs/ns/a/job"
    assert cluster.asked == [(place, {"EDL-Token": "secret"})]


@pytest.mark.parametrize("answer", [b"<html>", b'{"phase": "running"}', ConnectionLostError("no way through")])
async def test_what_cannot_be_read_is_left_out(answer: bytes | Exception) -> None:
    reader = ProgressReader(FarCluster(answer), TRAINING_JOB, "ns", "a", uid="u")  # type: ignore[arg-type]  # all it needs
    assert await reader.read() is None
