"""What following a job says: in words, in a terminal, and when it has nothing to say."""

import asyncio
import base64
import io
from typing import Any

import pytest
from rich.console import Console

from edl.api.kinds import TRAINING_JOB
from edl.cli.describe import render as render_description
from edl.cli.follow import follow
from edl.cli.jobs import Summary, summarize
from edl.cli.live import Look, PlainScreen, RichScreen, changes, count, dots, duration, numbers, sparkline
from edl.cli.progress import WINDOW, Pace, Progress, ProgressReader, _Door
from edl.kube.errors import ConnectionLostError
from edl.kube.transport import Request, Response
from edl.kube.wire import Page


def job(phase: str = "running", now: int = 2, target: int = 4, history: tuple[Any, ...] = (), **more: Any) -> Summary:
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
def test_only_what_is_new_is_said(before: Summary | None, after: Summary, said: list[str]) -> None:
    assert changes(before, after) == said


def test_numbers_leave_out_what_nobody_knows() -> None:
    assert numbers(Look(job())) == ["size 2/4"]
    known = Progress(throughput=1234.0, loss=0.25, pass_index=2, passes=5, done=30, total=100)
    assert numbers(Look(job(), known, 61.0)) == [
        "size 2/4",
        "pass 2/5",
        "30 %",
        "loss 0.25",
        "1.2k samples/s",
        "1 min 01 s left",
    ]
    assert numbers(Look(job("succeeded"), known, 61.0))[-1] == "loss 0.25"


def test_describe_says_how_training_goes() -> None:
    said = render_description(job(), [], [], 0.0, Progress(loss=0.25, pass_index=2, passes=5, age=3.0))
    assert "Training: pass 2/5, loss 0.25 (3 s ago)" in said


def test_units() -> None:
    assert [count(number) for number in (0, 999, 1500, 2.5e6, 3e9)] == ["0", "999", "1.5k", "2.5M", "3.0G"]
    assert [duration(seconds) for seconds in (0.4, 59.4, 60, 3700)] == ["0 s", "59 s", "1 min 00 s", "1 h 01 min"]


def test_dots_and_sparks() -> None:
    assert dots(job(now=2, target=4)) == "●●◌◌··"
    assert dots(job(now=5, target=3)) == "●●●◍◍·"
    assert dots(job(now=1, target=99)) == ""
    assert sparkline([]) == ""
    assert sparkline([1.0, 1.0]) == "▁▁"
    assert sparkline([3.0, 2.0, 1.0])[0] == "█"
    assert len(sparkline([float(value) for value in range(1000)], width=16)) == 16


def test_the_pace_tells_the_end_only_when_there_is_one() -> None:
    pace = Pace()
    assert pace.left(None, 0.0) is None
    assert pace.left(Progress(done=0, total=100), 0.0) is None
    assert pace.left(Progress(done=0, total=100), 5.0) is None, "nothing was done"
    assert pace.left(Progress(done=10, total=100), 10.0) == 90.0
    assert pace.left(Progress(done=40, total=100), 10.0 + WINDOW) == pytest.approx(60 * WINDOW / 30), "the newest count"
    assert pace.left(Progress(done=100, total=100), 11.0 + WINDOW) == 0.0


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
    door = _Door(url, "t", "")
    assert door.on_this_machine is here
    if proxied:
        assert door.proxied == proxied


def test_plain_lines_come_when_numbers_change_and_not_too_often(capsys: pytest.CaptureFixture[str]) -> None:
    screen = PlainScreen(every=1000.0)
    for done in (1, 2, 3):
        screen.show([Look(job(), Progress(done=done, total=100))])
    screen.show([Look(job("succeeded"), Progress(done=100, total=100))])
    lines = [line.partition(" ")[2] for line in capsys.readouterr().out.splitlines()]
    assert lines == ["a: size 2/4, 1 %", "a: size 2/4, 100 %"]


def test_a_terminal_shows_a_table_that_stays_and_escapes_what_jobs_say() -> None:
    file = io.StringIO()
    screen = RichScreen(Console(file=file, force_terminal=True, width=120, color_system=None))
    screen.news("a", "waits: [red]no room[/]")
    screen.show([Look(job(), Progress(loss=0.5, done=1, total=2, pass_index=1, passes=2), 3.0, (2.0, 1.0, 0.5))])
    screen.close()
    shown = file.getvalue()
    assert "[red]no room[/]" in shown
    for words in ("2/4 ●●◌◌··", "pass 1/2", "0.5", "3 s"):
        assert words in shown


class Flaky:
    """A job that cannot be read twice, then can, then has ended."""

    def __init__(self) -> None:
        self.looks = 0
        self.last = Look(job())

    async def look(self) -> Look:
        self.looks += 1
        if self.looks <= 2:
            raise ConnectionLostError("gone")
        self.last = Look(job("running" if self.looks == 3 else "succeeded"))
        return self.last

    def news(self) -> list[str]:
        return [self.last.job.phase]


async def test_a_cluster_that_does_not_answer_for_a_while_ends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    flaky = Flaky()
    await follow([flaky], PlainScreen(), asyncio.Event(), every=0.001)  # type: ignore[list-item]  # all it needs
    said = capsys.readouterr().out
    assert flaky.looks == 4
    assert said.count("does not answer") == 1, "said once, not for every try"
    assert "succeeded" in said


SERVICE = "https://edl-job-service.edl-system.svc:8443"
SECRETS = {
    "a-tj-token": {"token": "secret", "ca.crt": ""},
    "a-tj-0123456789": {"EDL_SERVICE_URL": SERVICE, "EDL_JOB_TOKEN": "secret", "EDL_SERVICE_CA": ""},
}
SHARING = {"envFrom": [{"secretRef": {"name": "of-somebody-else"}}, {"secretRef": {"name": "a-tj-0123456789"}}]}
NAMING = {
    "env": [
        {"name": "EDL_SERVICE_URL", "value": SERVICE},
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
        return Page([{"metadata": {"name": "a-0"}, "spec": {"containers": [self.container]}}], "1")

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
    reader = ProgressReader(cluster, TRAINING_JOB, "ns", "a")  # type: ignore[arg-type]  # all it needs
    assert await reader.read() == Progress(loss=0.5, age=1.0)
    place = "/api/v1/namespaces/edl-system/services/https:edl-job-service:8443/proxy/v1/jobs/ns/a/job"
    assert cluster.asked == [(place, {"EDL-Token": "secret"})]


@pytest.mark.parametrize("answer", [b"<html>", b'{"phase": "running"}', ConnectionLostError("no way through")])
async def test_what_cannot_be_read_is_left_out(answer: bytes | Exception) -> None:
    reader = ProgressReader(FarCluster(answer), TRAINING_JOB, "ns", "a")  # type: ignore[arg-type]  # all it needs
    assert await reader.read() is None
