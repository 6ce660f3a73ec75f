"""`edl run` and `edl logs` with real pods: to the end, to a failure, to Ctrl-C, and without a cluster to begin with."""

import asyncio
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from edl.cli.commands.jobs.run import QUESTION, ask
from edl.cli.connect.jobs import resource_of, summarize
from edl.cli.output.follow import WatchedJob
from edl.cli.output.live import JobSnapshot
from edl.jobs.registry import TRAINING_JOB
from edl.kube.rest.errors import ApiError
from tests.cli.conftest import Cluster
from tests.cli.test_jobs import pytorch_job, training_job

TRAINING = resource_of(TRAINING_JOB)
EDL = [sys.executable, "-m", "edl.cli.main"]
EXAMPLES = Path(__file__).parents[2] / "examples"

Output = pytest.CaptureFixture[str]


def manifest(path: Path, name: str, script: str, **trainer: Any) -> str:
    body = training_job(name, fault_tolerant=False)
    body["spec"]["trainer"] |= {"entrypoint": script, "min-instance": 1, "max-instance": 1, **trainer}
    path.write_text(yaml.safe_dump(body))
    return str(path)


@pytest.fixture
def tidy(cluster: Cluster) -> Iterator[Cluster]:
    yield cluster
    cluster.do(cluster.client.delete_collection(TRAINING, namespace="default"))


def test_a_job_is_followed_to_its_success_and_its_logs_are_kept(tidy: Cluster, tmp_path: Path, capsys: Output) -> None:
    file = manifest(
        tmp_path / "a.yaml", "good", "echo hello from $EDL_INDEX; sleep 2", **{"min-instance": 2, "max-instance": 2}
    )
    assert tidy.edl("run", file) == 0
    said = capsys.readouterr().out
    assert "good: running" in said
    assert "good: succeeded" in said
    assert "size 0 -> 2:" in said
    assert tidy.edl("logs", "good", "--role", "trainer") == 0
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "good-trainer-0: hello from 0",
        "good-trainer-1: hello from 1",
    ]
    assert tidy.edl("logs", "-f", "good") == 0, "following what has ended ends"


def test_a_job_that_fails_is_code_1_with_its_last_words(tidy: Cluster, tmp_path: Path, capsys: Output) -> None:
    file = manifest(tmp_path / "a.yaml", "bad", "echo no such data >&2; exit 3")
    assert tidy.edl("run", file) == 1
    said = capsys.readouterr()
    assert "bad: failed" in said.out
    assert "trainingjob/bad failed: pod bad-trainer-0" in said.err
    assert "exit code 3" in said.err
    assert "no such data" in said.err


def test_ctrl_c_without_a_terminal_leaves_the_job_running(tidy: Cluster, tmp_path: Path) -> None:
    file = manifest(tmp_path / "a.yaml", "long", "exec sleep 300")
    command = [*EDL, "run", file, "--kubeconfig", str(tidy.config)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.rstrip().endswith("long: running"):
                process.send_signal(signal.SIGINT)
                break
        rest = process.stdout.read()
    assert process.returncode == 130
    assert "left running; `edl attach long` shows it again" in rest
    assert tidy.do(tidy.client.get(TRAINING, "long", namespace="default"))["status"]["phase"] == "running"


def test_ctrl_c_in_a_terminal_asks_and_deletes_on_demand(tidy: Cluster, tmp_path: Path) -> None:
    file = manifest(tmp_path / "a.yaml", "asked", "exec sleep 300")
    ours, theirs = pty.openpty()
    command = [*EDL, "run", file, "--kubeconfig", str(tidy.config)]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, env={**os.environ, "TERM": "xterm"})
    os.close(theirs)
    try:
        read_until(ours, b"1/1")
        process.send_signal(signal.SIGINT)
        read_until(ours, b"delete them")
        os.write(ours, b"d\n")
        read_until(ours, b"trainingjob/asked deleted")
        assert process.wait(30) == 130
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    with pytest.raises(ApiError):
        tidy.do(tidy.client.get(TRAINING, "asked", namespace="default"))


def read_until(terminal: int, words: bytes) -> None:
    seen = b""
    while words not in seen:
        ready, _, _ = select.select([terminal], [], [], 60.0)
        assert ready, f"{words!r} never came: {seen!r}"
        seen += os.read(terminal, 4096)


def test_a_job_that_somebody_deletes_ends_the_watch(tidy: Cluster, tmp_path: Path) -> None:
    file = manifest(tmp_path / "a.yaml", "gone", "exec sleep 300")
    command = [*EDL, "run", file, "--kubeconfig", str(tidy.config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        assert tidy.edl("delete", "gone") == 0
        errors = process.stderr.read()
    assert process.returncode == 1
    assert "trainingjob/gone was deleted" in errors


HELD = """
import os, sys, time
sys.path.insert(0, {example!r})
import train

def hold(kind, task, **more):
    # after the first task of the first pass and of the last one, until that was seen
    while kind == "trained" and task.pass_index in (0, 2) and not os.path.exists({seen!r} % task.pass_index):
        time.sleep(0.02)

train.note = hold
train.main()
"""


def test_how_training_goes_is_read_from_the_job_service(tidy: Cluster, tmp_path: Path) -> None:
    """A real regression: throughput, loss and passes arrive, and the last of them stay when the job has ended."""
    body = yaml.safe_load((EXAMPLES / "fit_a_line" / "job.yaml").read_text())
    script, seen = tmp_path / "held.py", f"{tmp_path}/seen-%d"
    script.write_text(HELD.format(example=str(EXAMPLES / "fit_a_line"), seen=seen))
    body["spec"]["trainer"] |= {"entrypoint": f"exec python {script}", "passes": 3}
    made = tidy.do(tidy.client.create(TRAINING, body, namespace="default"))

    def go_on(now: JobSnapshot) -> None:
        if now.losses:
            Path(seen % 0).touch()
        if now.losses and now.losses[-1] < now.losses[0] / 2 and now.progress and now.progress.pass_index == 3:
            Path(seen % 2).touch()

    async def story() -> WatchedJob:
        watched = WatchedJob(tidy.client, summarize(TRAINING_JOB, made))
        async with asyncio.timeout(90):
            while not (now := await watched.refresh()).job.finished:
                go_on(now)
                await asyncio.sleep(0.05)
        return watched

    ended = asyncio.run_coroutine_threadsafe(story(), tidy.loop).result(100).last
    assert ended.job.phase == "succeeded"
    assert ended.progress is not None
    assert (ended.progress.pass_index, ended.progress.passes) == (3, 3)
    assert ended.progress.throughput is not None
    assert ended.progress.loss is not None
    assert ended.losses[0] > 2 * ended.losses[-1]


def test_run_starts_a_cluster_if_there_is_none_and_uses_it_again(tmp_path: Path) -> None:
    environment = {**os.environ, "EDL_HOME": str(tmp_path / "home")}
    environment.pop("KUBECONFIG", None)

    def edl(*words: str) -> str:
        ended = subprocess.run(
            [*EDL, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100, check=False
        )
        assert ended.returncode == 0, ended
        return ended.stdout

    body = training_job("first", fault_tolerant=True)
    body["metadata"]["namespace"] = "mine"  # made on the way
    body["spec"]["trainer"] |= {"entrypoint": "pwd", "resources": {"requests": {"cpu": "10m"}}, "max-instance": 2}
    (tmp_path / "first.yaml").write_text(yaml.safe_dump(body))
    try:
        assert "started a cluster on this machine" in edl("run", "first.yaml")
        assert str(tmp_path) in edl("logs", "first", "-n", "mine"), "pods start where the command was given"
        body["metadata"]["name"] = "second"
        (tmp_path / "second.yaml").write_text(yaml.safe_dump(body))
        again = edl("run", "second.yaml")
        assert "started a cluster" not in again
        assert "second: succeeded" in again
    finally:
        edl("down")


def test_a_log_outlives_its_pod_as_long_as_the_job(tmp_path: Path) -> None:
    """A worker that a shrink takes away has written lines that nobody else has."""
    environment = {**os.environ, "EDL_HOME": str(tmp_path / "home")}
    environment.pop("KUBECONFIG", None)

    def edl(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*EDL, *words], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100, check=False
        )

    body = pytorch_job("kept")
    script = ["sh", "-c", "echo line of $EDL_POD_NAME; exec sleep 300"]
    container: dict[str, Any] = {"name": "worker", "image": "x", "command": script}
    container["resources"] = {"requests": {"cpu": "10m"}}
    body["spec"]["replicaSpecs"] = {"Worker": {"replicas": 2, "template": {"spec": {"containers": [container]}}}}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(body))
    try:
        assert edl("up", "--cpu", "1").returncode == 0
        assert edl("submit", "job.yaml").returncode == 0
        until(lambda: "line of kept-worker-1" in edl("logs", "kept", "--role", "Worker").stdout)
        assert edl("scale", "kept", "1").returncode == 0
        until(lambda: any((tmp_path / "home" / "logs").glob("*/kept-worker-1")))
        assert edl("logs", "kept").stdout.splitlines() == [
            "kept-worker-1: line of kept-worker-1",
            "kept-worker-0: line of kept-worker-0",
        ]
        assert edl("logs", "kept", "--pod", "kept-worker-1").stdout == "line of kept-worker-1\n"
        assert edl("logs", "kept", "--tail", "0", "--timestamps").stdout == ""
        assert "wants" in edl("logs", "kept", "--since", "soon").stderr
        assert "has no rank 3" in edl("logs", "kept", "--rank", "3").stderr
    finally:
        assert edl("down", "--delete").returncode == 0


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60.0
    while not holds():
        assert time.monotonic() < end, "it never came about"
        time.sleep(0.2)


@pytest.mark.parametrize("pressed", [KeyboardInterrupt, EOFError])
def test_ctrl_c_and_ctrl_d_at_the_question_leave_the_jobs_running(
    monkeypatch: pytest.MonkeyPatch, capsys: Output, pressed: type[BaseException]
) -> None:
    """As Enter does."""

    def interrupted() -> str:
        raise pressed

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", interrupted)
    assert ask() == ""
    assert capsys.readouterr().out == f"{QUESTION}\n"
