"""ElasticJobs with real torchrun and an unmodified script on the embedded cluster: operator, scheduler, job service and
rendezvous together."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from edl.operator.resources import PODS
from tests.stories.backend import embedded
from tests.stories.elastic import Elastic
from tests.stories.story import Story

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(400)]

SCRIPT = Path(__file__).parents[3] / "examples" / "pytorch" / "train.py"
PATIENCE = 150.0


@pytest.fixture
async def elastic(tmp_path: Path) -> AsyncIterator[Elastic]:
    async with embedded(tmp_path) as backend:
        story = await Story.begin(backend)
        story.patience = PATIENCE
        yield Elastic(story)


class Training:
    """One job that trains, and what its workers wrote down of it."""

    def __init__(self, elastic: Elastic, folder: Path) -> None:
        self.elastic, self.trace, self.checkpoint = elastic, folder / "trace", folder / "model.pt"
        self.trace.mkdir()

    async def begin(self, least: int, most: int, *, steps: int, size: int | None = None) -> None:
        command = ["torchrun", str(SCRIPT), f"--steps={steps}", "--every=5", "--pause=0.1"]
        command += [f"--checkpoint={self.checkpoint}", f"--trace={self.trace}"]
        notes = {"edl.dev/pin": "true"}
        manifest = self.elastic.manifest("", least, most, container={"command": command}, notes=notes)
        manifest["spec"]["replicaSpecs"]["Worker"]["replicas"] = size or least
        await self.elastic.create(manifest)

    def lines(self) -> list[dict[str, Any]]:
        """In the order of time."""
        texts = [file.read_text() for file in self.trace.iterdir()]
        found = [json.loads(line) for text in texts for line in text.splitlines() if line.endswith("}")]
        return sorted(found, key=lambda line: float(line["at"]))

    def last(self) -> dict[str, Any]:
        return (self.lines() or [{"step": 0, "world": 0}])[-1]

    async def until_world(self, size: int) -> int:
        """Until so many train together, and have done a few steps so. Returns the step."""
        begun = self.last()["step"]

        async def look() -> bool:
            recent = self.lines()[-4 * size :]
            return bool(recent) and all(line["world"] == size for line in recent) and len(recent) == 4 * size

        await self.elastic.until(look, f"{size} workers train together, after step {begun}; last: {self.last()}")
        return int(self.last()["step"])

    def all_steps(self, steps: int) -> bool:
        return {line["step"] for line in self.lines()} == set(range(1, steps + 1))


async def test_a_job_is_scaled_loses_a_worker_and_the_operator_and_trains_to_the_end(
    elastic: Elastic, tmp_path: Path
) -> None:
    training = Training(elastic, tmp_path)
    await training.begin(1, 3, steps=300, size=2)
    before = await training.until_world(2)
    await elastic.story.backend.kill_operator()
    assert await training.until_world(2) > before, "losing the operator stops no training"
    await elastic.scale(3)
    await training.until_world(3)
    await elastic.story.delete(PODS, "j-worker-0", grace=0)
    await elastic.until(lambda: _runs(elastic, "j-worker-0-1"), "its successor runs")
    await training.until_world(3)
    await elastic.scale(1)
    await training.until_world(1)
    status = await elastic.until_phase("Succeeded")
    assert training.all_steps(300)
    assert status["replicaStatuses"]["Worker"].get("failed", 0) == 0, "who was lost or sent away has not failed"


async def _runs(elastic: Elastic, name: str) -> bool:
    return name in await elastic.workers()


async def test_a_job_that_was_stopped_goes_on_from_its_checkpoint(elastic: Elastic, tmp_path: Path) -> None:
    training = Training(elastic, tmp_path)
    await training.begin(2, 2, steps=60)
    await training.until_world(2)
    await elastic.edit({"spec": {"suspend": True}})
    await elastic.until_running(0)
    stopped = training.last()["step"]
    await elastic.edit({"spec": {"suspend": False}})
    await elastic.until_phase("Succeeded")
    assert training.all_steps(60)
    again = [line["step"] for line in training.lines() if line["step"] <= stopped]
    assert len(again) <= 2 * (stopped + 10), "nothing before the last checkpoint was done again"
