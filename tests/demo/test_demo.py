"""The demonstration itself, in its quick form, with real processes: what it shows must have happened."""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from edl.demo.cast import CLICKS, QUICK, REGRESSION, SERVICE, examples
from edl.demo.recording import Act, Recording
from edl.demo.stage import stage
from edl.demo.story import play
from edl.demo.svg import draw


class Audience:
    """Sees everything and says nothing."""

    def tell(self, act: Act) -> None:
        pass

    def show(self, recording: Recording, looks: list[object]) -> None:
        pass


@pytest.mark.timeout(240)
async def test_jobs_grow_shrink_for_a_service_survive_kills_and_lose_nothing(tmp_path: Path) -> None:
    scripts = examples()
    assert scripts is not None
    async with stage(tmp_path, Audience(), QUICK) as made:  # type: ignore[arg-type]  # it looks at nothing
        outcome = await play(made, QUICK, scripts, tmp_path / "data")
    assert outcome.largest[REGRESSION] >= 6, "it grew into the empty cluster"
    assert all(2 <= size < outcome.largest[REGRESSION] for size in outcome.squeezed.values()), outcome.squeezed
    assert sum(outcome.squeezed.values()) <= 4, "beside the service there is room for the minima alone"
    reasons = [act.words for act in outcome.recording.acts if act.kind == "decision"]
    assert any(f"makes room for default/{SERVICE}" in words for words in reasons), reasons
    assert any(f"makes room for the minimum of default/{CLICKS}" in words for words in reasons), reasons
    assert set(outcome.recovered) == {"trainer", "master"}
    for job in (REGRESSION, CLICKS):
        assert outcome.accounts[job].exactly_once, (job, outcome.accounts[job])
        assert outcome.last_losses[job] < outcome.first_losses[job]
    assert outcome.good
    ElementTree.fromstring(draw(outcome.recording))


def test_it_says_where_it_cannot_write_before_anything_is_started(tmp_path: Path) -> None:
    environment = {**os.environ, "EDL_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-m", "edl.cli.main", "demo", "--out", str(tmp_path / "no" / "demo.svg")]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "there is no directory" in ended.stderr
    assert not (tmp_path / "home").exists()
