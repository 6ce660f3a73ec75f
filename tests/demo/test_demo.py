"""The demonstration itself, in its quick form, with real processes: what it shows must have happened."""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from edl.demo.cluster import demo_cluster
from edl.demo.recording import Recording, TimelineEvent
from edl.demo.scenario import run_scenario
from edl.demo.svg import draw
from edl.demo.workloads import CLICKS, QUICK, REGRESSION, SERVICE, examples


class Audience:
    """Sees everything and says nothing."""

    def report(self, event: TimelineEvent) -> None:
        pass

    def show(self, recording: Recording, snapshots: list[object]) -> None:
        pass


@pytest.mark.timeout(240)
async def test_jobs_grow_shrink_for_a_service_survive_kills_and_lose_nothing(tmp_path: Path) -> None:
    scripts = examples()
    assert scripts is not None
    async with demo_cluster(tmp_path, Audience(), QUICK) as made:  # type: ignore[arg-type]  # it looks at nothing
        outcome = await run_scenario(made, QUICK, scripts, tmp_path / "data")
    assert outcome.largest[REGRESSION] >= 6, "it grew into the empty cluster"
    assert all(2 <= size < outcome.largest[REGRESSION] for size in outcome.squeezed.values()), outcome.squeezed
    assert sum(outcome.squeezed.values()) <= 4, "beside the service there is room for the minima alone"
    reasons = [event.text for event in outcome.recording.events if event.kind == "decision"]
    assert any(f"makes room for default/{SERVICE}" in text for text in reasons), reasons
    assert any(f"makes room for the minimum of default/{CLICKS}" in text for text in reasons), reasons
    assert set(outcome.recovered) == {"trainer", "master"}
    for job in (REGRESSION, CLICKS):
        assert outcome.task_counts[job].exactly_once, (job, outcome.task_counts[job])
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
