"""`edl exec`: a command in a pod of a job, with pipes and in a real terminal."""

import os
import pty
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edl.cli.connect.jobs import resource_of
from edl.jobs.registry import PYTORCH_JOB
from edl.kube.rest.remote_command import outcome
from tests.cli.conftest import Cluster

ELASTIC_JOBS = resource_of(PYTORCH_JOB)
WITHIN = 60


@pytest.fixture(scope="module")
def job(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two workers that sleep."""
    script = tmp_path_factory.mktemp("job") / "sleeps.py"
    script.write_text("import time\nprint('ready', flush=True)\ntime.sleep(600)\n")
    assert cluster.edl("run", str(script), "--image", "any", "--plain", "--min", "2", "--cpu", "10m", "--detach") == 0
    with subprocess.Popen(command(cluster, "logs", "sleeps", "-f"), stdout=subprocess.PIPE) as logs:
        assert logs.stdout is not None
        heard = [logs.stdout.readline() for _ in range(2)]
        logs.terminate()
    assert all(b"ready" in line for line in heard)
    yield "sleeps"
    cluster.do(cluster.client.delete_collection(ELASTIC_JOBS, namespace="default"))


def command(cluster: Cluster, *words: str) -> list[str]:
    name, *rest = words
    return [sys.executable, "-m", "edl.cli.main", name, "--kubeconfig", str(cluster.config), *rest]


def ran(cluster: Cluster, *words: str, given: bytes = b"") -> tuple[int, bytes, bytes]:
    done = subprocess.run(command(cluster, *words), input=given, capture_output=True, timeout=WITHIN, check=False)
    return done.returncode, done.stdout, done.stderr


def test_the_command_has_our_input_output_and_exit_code(cluster: Cluster, job: str) -> None:
    big = os.urandom(300_000)
    assert ran(cluster, "exec", job, "--", "cat", given=big) == (0, big, b"")
    code, out, err = ran(cluster, "exec", job, "--", "sh", "-c", "echo $EDL_INDEX; echo wrong >&2; exit 3")
    assert (code, out, err) == (3, b"0\n", b"wrong\n")


def test_without_a_command_it_is_a_shell_that_reads_what_it_is_given(cluster: Cluster, job: str) -> None:
    assert ran(cluster, "exec", job, given=b"echo $EDL_POD_NAME\nexit 4\n") == (4, b"sleeps-worker-0\n", b"")


def test_a_plain_file_is_read_to_its_end(cluster: Cluster, job: str, tmp_path: Path) -> None:
    file = tmp_path / "given"
    file.write_bytes(b"x" * 100_000)
    with open(file) as given:
        done = subprocess.run(
            command(cluster, "exec", job, "--", "wc", "-c"),
            stdin=given,
            capture_output=True,
            timeout=WITHIN,
            check=True,
        )
    assert done.stdout.strip() == b"100000"


def test_a_pod_may_be_named(cluster: Cluster, job: str) -> None:
    words = ("exec", job, "--no-stdin", "--pod", "sleeps-worker-1", "--", "printenv", "EDL_INDEX")
    assert ran(cluster, *words) == (0, b"1\n", b"")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("absent",), "there is no job absent"),
        (
            ("sleeps", "--pod", "other"),
            "other is none of its pods; those of elasticjob/sleeps that run: sleeps-worker-0",
        ),
        (("sleeps", "--rank", "7"), "elasticjob/sleeps has no rank 7: it has no ranks now; name a pod with --pod"),
        (("sleeps", "-c", "other"), "container other is not valid"),
        (("sleeps", "--", "no-such-program"), "no-such-program"),
    ],
)
def test_what_cannot_be_is_said(cluster: Cluster, job: str, words: tuple[str, ...], complaint: str) -> None:
    code, out, err = ran(cluster, "exec", *words)
    assert (code > 0, out) == (True, b"")
    assert complaint in err.decode()
    assert "Traceback" not in err.decode()


def test_in_a_terminal_it_is_interactive(cluster: Cluster, job: str) -> None:
    ours, theirs = pty.openpty()
    env = {**os.environ, "COLUMNS": "91", "LINES": "33"}
    shell = subprocess.Popen(command(cluster, "exec", job), stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    try:
        os.write(ours, b"PS1='ready> '; test -t 0 && echo a-terminal; stty size\n")
        seen = until(ours, b"33 91")
        assert b"a-terminal" in seen
        os.write(ours, b"echo sleeps-$((1 + 1)); sleep 600\n")
        until(ours, b"sleeps-2")
        os.write(ours, b"\x03")  # Ctrl-C is the remote command's
        until(ours, b"ready> ")
        os.write(ours, b"echo still-$((1 + 1))-here\n")
        until(ours, b"still-2-here")
        os.write(ours, b"exit 5\n")
        assert shell.wait(WITHIN) == 5
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)


def until(descriptor: int, wanted: bytes) -> bytes:
    seen = b""
    while wanted not in seen:
        assert select.select([descriptor], [], [], WITHIN)[0], f"{wanted!r} did not come, only {seen!r}"
        seen += os.read(descriptor, 4096)
    return seen


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (b'{"status": "Success"}', (0, "")),
        (b'{"status": "Failure", "details": {"causes": [{"reason": "ExitCode", "message": "3"}]}}', (3, "")),
        (b'{"status": "Failure", "message": "no such container"}', (1, "no such container")),
        (b"plain words", (1, "plain words")),
        (b"[]", (1, "[]")),
    ],
)
def test_how_a_command_ended(said: bytes, wanted: tuple[int, str]) -> None:
    assert outcome(said) == wanted
