"""The terminal of a user while a real script trains: log lines, loss and time left, while it still trains.

Of a plain script counts what it has printed by then, not the time that went by: how fast a machine is is not in our
hands. Of one of Hugging Face counts the time: its own callback, which is not in our hands either, would be too late.
"""

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
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from edl.api.kubernetes import timestamp
from tests.stories.backend import caller
from tests.tier_frameworks.torchrun.training import ROOT

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(300)]

ROW = re.compile(r"\d/\d\s*│[^│]*\d+%[^│]*│\s*\d+\.\d+[^│]*│\s*\d+ (?:s|min|h)")
"""Size, progress, loss and time left in one row of the table."""
SOON = 50
"""Steps of a plain script, of a tenth of a second each at least, within which the row comes."""
STEP = re.compile(r"step (\d+) of \d+ with")
BAR = re.compile(r"\| [1-9]\d*/100000 \[")
WITHIN = 5.0


@pytest.fixture
def home(tmp_path: Path) -> Iterator[dict[str, str]]:
    environment = {**caller(), "EDL_HOME": str(tmp_path / "home"), "KUBECONFIG": "", "TERM": "xterm"}
    yield environment
    subprocess.run([sys.executable, "-m", "edl.cli.main", "down", "--delete"], env=environment, check=True, timeout=100)


def transcript(environment: dict[str, str], *words: str) -> Generator[str, None, None]:
    """Everything shown so far without colours whenever there is more; ends with the command."""
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
            yield seen
    finally:
        process.kill()  # a signal that can be caught would be answered with a question
        process.wait(60)
        os.close(ours)


def await_row(environment: dict[str, str], line: str, late: Callable[[str], bool], *words: str) -> None:
    """The script's line and the row with size, progress, loss and time left are there before it is too late."""
    with contextlib.closing(transcript(environment, *words)) as shown:
        for seen in shown:
            if line in seen and ROW.search(seen):
                return
            assert not late(seen), f"no row yet: {seen[-4000:]}"
    raise AssertionError("the row never came")


def many_steps(seen: str) -> bool:
    """Whether the script has come further than SOON steps past the first one that is on the screen."""
    steps = [int(step) for step in STEP.findall(seen)]
    return bool(steps) and steps[-1] > steps[0] + SOON


def test_a_plain_script_shows_lines_loss_and_time_left(home: dict[str, str], tmp_path: Path) -> None:
    options = ("--min", "1", "--max", "4", "--cpu", "500m", "--", "--pause", "0.1", "--steps", "400")
    script = ("examples/pytorch/train.py", *options, "--checkpoint", str(tmp_path / "model.pt"))
    await_row(home, "step 10 of 400 with", many_steps, *script)


def test_a_script_of_hugging_face_shows_them_without_a_change(home: dict[str, str], tmp_path: Path) -> None:
    """Its own lines tell, before the Trainer's callback does: that sends steps after 5 s or later. Measured from the
    first step as the script's own bar has it in the log. It trains for as long as it takes."""
    options = ("--min", "1", "--max", "1", "--cpu", "500m", "--", "--steps", "100000")
    script = ("examples/pytorch/train_transformers.py", *options, "--output", str(tmp_path / "run"))
    await_row(home, "'loss': ", lambda seen: "finished at step" in seen, *script)
    shown = time.time()
    taken = shown - first_step(home, "train-transformers")
    print(f"{taken:.1f} s from the first step to the row with loss and time left")
    assert taken < WITHIN


def first_step(environment: dict[str, str], job: str) -> float:
    """When the bar of tqdm first had a step done, by the time of its line."""
    command = [sys.executable, "-m", "edl.cli.main", "logs", job, "--timestamps"]
    log = subprocess.run(command, env=environment, check=True, timeout=100, capture_output=True).stdout.decode()
    moved = next(line for line in log.split("\n") if BAR.search(line))
    return timestamp.seconds(moved.partition(" ")[0])
