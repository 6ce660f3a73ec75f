"""ElasticJobs of real torchrun workers on the embedded cluster: an unmodified script, seen through the API alone."""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import torch

from edl.kube.recorder import EVENTS
from edl.kube.resource import Resource
from tests.stories.backend import embedded
from tests.stories.elastic import Elastic
from tests.stories.processes import kill_pod, of_pod
from tests.stories.story import Story

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(400)]
ROOT = Path(__file__).parents[3]
STATES = Resource("", "v1", "configmaps", "ConfigMap")
PINNED = {"edl.dev/pin": "true"}


class Training:
    """One job of `examples/pytorch/train.py`, and what its workers wrote down."""

    def __init__(self, elastic: Elastic, folder: Path) -> None:
        self.elastic, self.folder, self.uid = elastic, folder, ""
        self.trace = folder / "trace"
        self.trace.mkdir()

    async def submit(self, least: int, most: int, *, steps: int = 100_000, pause: float = 0.05, **more: Any) -> None:
        script = (
            f"exec torchrun examples/pytorch/train.py --steps {steps} --pause {pause} --every 5 "
            f"--checkpoint {self.folder}/model.pt --trace {self.trace}"
        )
        container = {"env": [{"name": "OMP_NUM_THREADS", "value": "1"}]}
        made = await self.elastic.submit(script, least, most, container=container, **more)
        self.uid = made["metadata"]["uid"]

    def steps(self, since: float = 0.0) -> list[dict[str, Any]]:
        lines = [line for file in self.trace.glob("*.jsonl") for line in file.read_text().splitlines(keepends=True)]
        told = [json.loads(line) for line in lines if line.endswith("\n")]
        return sorted((line for line in told if line["at"] > since), key=lambda line: line["at"])

    @property
    def saved(self) -> int:
        step: int = torch.load(self.folder / "model.pt", weights_only=True)["step"]
        return step

    async def has_saved(self) -> bool:
        return (self.folder / "model.pt").exists()

    async def until_world(self, size: int) -> list[dict[str, Any]]:
        """Every rank of a world of this size has done a few steps since now."""
        since = time.monotonic()

        async def look() -> list[dict[str, Any]] | None:
            fresh = [line for line in self.steps(since) if line["world"] == size]
            counts = [sum(line["rank"] == rank for line in fresh) for rank in range(size)]
            return fresh if min(counts) >= 3 else None

        found: list[dict[str, Any]] = await self.elastic.until(look, f"training with {size} workers")
        return found

    async def round(self) -> int:
        state = await self.elastic.client.get(STATES, "j-ptej-state", namespace=self.elastic.namespace)
        number: int = json.loads(state["data"]["state.json"])["round"]["number"]
        return number


@pytest.fixture
async def training(tmp_path: Path) -> AsyncIterator[Training]:
    async with embedded(tmp_path, working_dir=ROOT) as backend:
        story = await Story.begin(backend)
        story.patience = 150.0
        yield Training(Elastic(story), tmp_path)


async def test_sizes_change_quickly_the_operator_is_killed_and_a_worker_too(training: Training) -> None:
    elastic = training.elastic
    await training.submit(1, 4, notes=PINNED)
    await elastic.until_running(1)
    for size in (2, 4, 1, 3):
        await elastic.scale(size)
        await asyncio.sleep(2.5)
    await training.until_world(3)
    before = await training.round()

    await elastic.story.backend.kill_operator()
    await training.until_world(3)
    assert await training.round() == before, "a new leader is no reason to regroup"

    victim = (await elastic.workers())[-1]
    assert kill_pod(training.uid, victim)
    await elastic.until(lambda: _gone(elastic, victim), "the worker is gone")
    await training.until_world(3)
    assert (await elastic.status())["replicaStatuses"]["Worker"]["failed"] == 1


async def test_all_workers_go_and_the_job_resumes_from_its_checkpoint_to_its_end(training: Training) -> None:
    elastic = training.elastic
    await training.submit(2, 2, steps=300, pause=0.02)
    await training.until_world(2)
    await elastic.until(training.has_saved, "a checkpoint")
    await elastic.edit({"spec": {"suspend": True}})
    await elastic.until_running(0)
    step, since = training.saved, time.monotonic()
    await elastic.edit({"spec": {"suspend": False}})
    await elastic.until_phase("Succeeded")
    assert training.saved == 300
    assert training.steps(since)[0]["step"] == step + 1, "nothing before the checkpoint was trained again"


async def test_a_node_is_lost_with_what_ran_on_it(tmp_path: Path) -> None:
    async with embedded(tmp_path, nodes=1, cpu="1", working_dir=ROOT) as backend:
        story = await Story.begin(backend)
        story.patience = 150.0
        training = Training(Elastic(story), tmp_path)
        await backend.add_node("doomed", "1")
        await training.submit(1, 2, cpu="800m")
        await training.until_world(2)
        await backend.lose_node("doomed")
        await training.until_world(1)
        await backend.add_node("spare", "1")
        await training.until_world(2)
        assert (await training.elastic.status())["replicaStatuses"]["Worker"].get("failed", 0) == 0


async def test_a_worker_that_hangs_is_replaced_though_the_script_reports_nothing(training: Training) -> None:
    elastic = training.elastic
    await training.submit(2, 2, notes={"edl.dev/stall-timeout": "8s"})
    await training.until_world(2)
    hung = max(of_pod(training.uid, "j-worker-1"))  # the youngest process of the pod is the one that trains
    os.kill(hung, signal.SIGSTOP)
    await training.until_world(2)
    events = (await elastic.client.list(EVENTS, namespace=elastic.namespace)).items
    assert any(event["reason"] == "WorkerStalled" for event in events), [event["note"] for event in events]


async def _gone(elastic: Elastic, name: str) -> bool:
    return name not in await elastic.workers()
