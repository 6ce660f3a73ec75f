"""The terminal of a user while a real script trains: log lines, loss and time left, soon after a first step."""

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.stories.backend import caller
from tests.tier_frameworks.torchrun.training import ROOT

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(300)]

ROW = re.compile(r"\d/\d\s*│[^│]*\d+%[^│]*│\s*\d+\.\d+[^│]*│\s*\d+ (?:s|min|h)")
"""Size, progress, loss and time left in one row of the table."""
SOON = 5.0


@pytest.fixture
def home(tmp_path: Path) -> Iterator[dict[str, str]]:
    environment = {**caller(), "EDL_HOME": str(tmp_path / "home"), "KUBECONFIG": "", "TERM": "xterm"}
    yield environment
    subprocess.run([sys.executable, "-m", "edl.cli.main", "down", "--delete"], env=environment, check=True, timeout=100)


def transcript(environment: dict[str, str], *words: str) -> Generator[tuple[float, str], None, None]:
    """Everything shown so far without colours, with the time, whenever there is more; ends with the command."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
    command = [sys.executable, "-m", "edl.cli.main", "run", *words]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, cwd=ROOT)
    os.close(theirs)
    seen = ""
    try:
        while True:
            ready, _, _ = select.select([ours], [], [], 120.0)
            assert ready, f"nothing more came: {seen[-2000:]}"
            try:
                piece = os.read(ours, 1 << 16)
            except OSError:  # the other end is closed
                break
            seen += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", piece.decode(errors="replace"))
            yield time.monotonic(), seen
    finally:
        process.kill()  # a signal that can be caught would be answered with a question
        process.wait(60)
        os.close(ours)


def first_seen(environment: dict[str, str], first_step: str, *words: str) -> float:
    """Seconds from the first line about a step to the row with size, progress, loss and time left."""
    began: float | None = None
    with contextlib.closing(transcript(environment, *words)) as shown:
        for now, seen in shown:
            if began is None and first_step in seen:
                began = now
            if began is not None and ROW.search(seen):
                return now - began
    raise AssertionError("the row never came")


def test_a_plain_script_shows_lines_loss_and_time_left(home: dict[str, str], tmp_path: Path) -> None:
    options = ("--min", "1", "--max", "4", "--cpu", "500m", "--", "--pause", "0.1", "--steps", "400")
    script = ("examples/pytorch/train.py", *options, "--checkpoint", str(tmp_path / "model.pt"))
    assert first_seen(home, "step 10 of 400 with", *script) < SOON


def test_a_script_of_hugging_face_shows_them_without_a_change(home: dict[str, str], tmp_path: Path) -> None:
    options = ("--min", "1", "--max", "1", "--cpu", "500m", "--", "--steps", "4000")
    script = ("examples/pytorch/train_transformers.py", *options, "--output", str(tmp_path / "run"))
    assert first_seen(home, "'loss': ", *script) < SOON
