"""Failures to start a process: which are the machine's, and which the command's."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from edl.embedded.node.supervisor.container import Container
from edl.embedded.node.supervisor.spawn import Command, Failure, SandboxSpec, spawn


@pytest.mark.case("attack-11")
@pytest.mark.parametrize(
    ("number", "stage"),
    [
        (errno.EAGAIN, "create"),
        (errno.ENOMEM, "create"),
        (errno.EMFILE, "create"),
        (errno.ENFILE, "create"),
        (errno.ENOENT, "start"),
        (errno.EACCES, "start"),
    ],
)
def test_a_machine_that_has_nothing_left_is_not_the_commands_failure(
    monkeypatch: pytest.MonkeyPatch, number: int, stage: str
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "execvpe", refuse)
    pid, reader = spawn(Command(["/bin/true"], {}, "/", (0, 1, 2)), SandboxSpec("none"))
    with os.fdopen(reader, "rb") as report:
        failure = Failure.decode(report.read())
    os.waitpid(pid, 0)
    assert failure.stage == stage
    assert os.strerror(number) in failure.message


def test_a_fork_that_fails_leaves_no_descriptor_open(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse() -> int:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", refuse)
    log = {"log": str(tmp_path / "0.log"), "log_bytes": 1000, "log_files": 1}
    before = os.listdir("/proc/self/fd")
    with pytest.raises(BlockingIOError):
        Container({"id": "c", "argv": ["/bin/true"], "env": {}, "cwd": "/", **log}, mode="none")
    assert len(os.listdir("/proc/self/fd")) == len(before)
