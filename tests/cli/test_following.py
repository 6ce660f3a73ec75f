"""Leaving a job and coming back to it, a script that prints nothing, and a cluster that goes away meanwhile."""

import asyncio
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from edl import client
from edl.cli.commands.jobs import logs
from edl.cli.commands.jobs.run import TERMINATED
from edl.cli.connect.jobs import JobSummary, resource_of, summarize
from edl.cli.connect.pod_logs import LogRange
from edl.cli.main import main
from edl.jobs.registry import PYTORCH_JOB, TRAINING_JOB
from edl.kube.rest.errors import ConnectionLostError
from edl.kube.rest.resource import Resource
from tests.cli.conftest import Cluster
from tests.cli.test_jobs import training_job

ELASTIC_JOBS = resource_of(PYTORCH_JOB)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
TRAINING_JOBS = resource_of(TRAINING_JOB)
PATIENCE = 60.0
EDL = [sys.executable, "-m", "edl.cli.main"]
ROW = re.compile(r"│ long +│ 1/1 +│ [^│]*40% *│ 0.31 ")
Output = pytest.CaptureFixture[str]


@pytest.fixture
def tidy(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.chdir(tmp_path)
    yield cluster
    cluster.do(cluster.client.delete_collection(ELASTIC_JOBS, namespace="default"))


class Terminal:
    """A command in a terminal of 80 columns, and what it shows without colours."""

    def __init__(self, *words: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
        environment = {**os.environ, "TERM": "xterm"}
        self.process = subprocess.Popen([*EDL, *words], stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
        os.close(theirs)
        self.seen = ""

    def until(self, words: str) -> None:
        end = time.monotonic() + PATIENCE  # a table that renews itself never falls silent
        while not re.search(words, self.seen):
            ready, _, _ = select.select([self._ours], [], [], PATIENCE)
            assert ready, f"{words!r} never came: {self.seen[-2000:]}"
            assert time.monotonic() < end, f"{words!r} never came: {self.seen[-2000:]}"
            try:
                piece = os.read(self._ours, 1 << 16).decode(errors="replace")
            except OSError:  # the other end is closed
                raise AssertionError(f"{words!r} never came: {self.seen[-2000:]}") from None
            self.seen += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", piece)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def ctrl_c(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def close(self) -> None:
        self.process.kill()
        self.process.wait(60)
        os.close(self._ours)


def run(cluster: Cluster, script: str, *words: str) -> tuple[str, ...]:
    Path("long.py").write_text(script)
    return ("run", "long.py", "--image", "any", "--plain", "--cpu", "10m", "--kubeconfig", str(cluster.config), *words)


STEPS = "import time\nprint('step 12/30 loss 0.31', flush=True)\ntime.sleep(300)\n"


def test_attach_after_ctrl_c_shows_the_same_table(tidy: Cluster) -> None:
    where = ("--kubeconfig", str(tidy.config))
    with contextlib.closing(Terminal(*run(tidy, STEPS))) as first:
        first.until(ROW.pattern)
        first.ctrl_c()
        first.until("delete them")
        first.type("\n")
        first.until("left running; `edl attach long` shows it again")
        assert first.process.wait(60) == 130
    with contextlib.closing(Terminal("attach", "long", *where)) as again:
        again.until(ROW.pattern)
        again.until("step 12/30 loss 0.31")
        again.ctrl_c()
        again.until("delete them")
        again.ctrl_c()  # at the question: as Enter does
        again.until("left running")
        assert again.process.wait(60) == 130
    assert tidy.edl("get", "long") == 0, "it is still there"


def test_who_is_told_to_end_is_not_asked(tidy: Cluster) -> None:
    """Nobody is there to answer when a machine shuts down."""
    with contextlib.closing(Terminal(*run(tidy, STEPS))) as shown:
        shown.until(ROW.pattern)
        shown.process.send_signal(signal.SIGTERM)
        shown.until("left running")
        assert shown.process.wait(60) == TERMINATED
        assert "delete them" not in shown.seen


def test_a_script_that_prints_nothing_is_followed_to_its_end(tidy: Cluster, capsys: Output) -> None:
    assert main(run(tidy, "pass\n")) == 0
    shown = capsys.readouterr()
    assert "long: succeeded" in shown.out
    assert shown.err == ""
    for words in (("logs", "long"), ("logs", "-f", "long")):
        assert tidy.edl(*words) == 0
        assert capsys.readouterr() == ("", "")
    job = client.get("long", kubeconfig=str(tidy.config))
    assert list(job.logs()) == []
    assert [len(values) for values in job.metrics().values()] == [0] * 5
    assert tidy.edl("describe", "long") == 0


def test_hints_repeat_the_namespace(api: Cluster, capsys: Output) -> None:
    api.do(api.client.create(NAMESPACES, {"metadata": {"name": "mine"}}, namespace=None))
    for namespace, hint in (("mine", "edl logs -f a -n mine"), ("default", "edl logs -f a\n")):
        api.do(api.client.create(TRAINING_JOBS, training_job("a"), namespace=namespace))
        running(api, "a", namespace)
        assert api.edl("describe", "a", "-n", namespace) == 0
        assert hint in capsys.readouterr().out
        api.do(api.client.delete(TRAINING_JOBS, "a", namespace=namespace))


def running(api: Cluster, name: str, namespace: str = "default") -> None:
    status = {"status": {"phase": "running", "scale_status": {"current": 2, "target": 2}}}
    api.do(api.client.patch(TRAINING_JOBS, name, status, subresource="status", namespace=namespace))


def test_get_goes_on_with_what_changes(api: Cluster) -> None:
    api.do(api.client.create(TRAINING_JOBS, training_job("a"), namespace="default"))
    command = [*EDL, "get", "-w", "--kubeconfig", str(api.config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().split()[:2] == ["JOB", "PHASE"]
        assert process.stdout.readline().split()[:2] == ["trainingjob/a", "new"]
        running(api, "a")
        assert process.stdout.readline().split()[:3] == ["trainingjob/a", "running", "2"]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    api.do(api.client.delete(TRAINING_JOBS, "a", namespace="default"))


class Away:
    """A cluster that does not answer at first, then has the job without pods, then says that it has ended."""

    def __init__(self) -> None:
        self.asked = 0

    async def pods(self, *_: Any, **__: Any) -> Sequence[Any]:
        self.asked += 1
        if self.asked <= 2:
            raise ConnectionLostError("gone")
        return []

    async def job(self, *_: Any) -> JobSummary:
        return summary("running" if self.asked == 3 else "succeeded")


def summary(phase: str) -> JobSummary:
    named = {"metadata": {"name": "a", "namespace": "default", "uid": "u"}, "spec": {"trainer": {}}}
    return summarize(TRAINING_JOB, {**named, "status": {"phase": phase}})


async def test_logs_wait_for_a_cluster_that_went_away(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    away, nobody = Away(), cast(Any, None)  # nobody else is asked
    monkeypatch.setattr(logs, "job_pods", away.pods)
    monkeypatch.setattr(logs, "find_job", away.job)
    monkeypatch.setattr(logs, "POLL_INTERVAL", 0.001)
    printer = logs.Printer(timestamps=False, several=False)
    async with asyncio.timeout(60):
        await logs._follow(nobody, summary("running"), logs.Choice(None, None), LogRange(follow=True), printer)
    assert away.asked == 4
    assert capsys.readouterr().err == "edl: the cluster does not answer (gone); trying again\n", "said once"
