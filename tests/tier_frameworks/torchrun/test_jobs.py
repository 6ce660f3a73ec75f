"""ElasticJobs of real torchrun workers on the embedded cluster: an unmodified script, seen through the API alone."""

import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from edl.kube.controllers.recorder import EVENTS
from edl.operator.resources import NODES, PODS
from tests.stories.backend import embedded
from tests.stories.processes import of_pod
from tests.stories.story import Story
from tests.tier_frameworks.torchrun.training import ROOT, Training

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(400)]
PINNED = {"edl.dev/pin": "true"}


@pytest.fixture
async def training(tmp_path: Path) -> AsyncIterator[Training]:
    async with embedded(tmp_path, working_dir=ROOT) as backend:
        yield Training(await Story.begin(backend), tmp_path)


async def test_sizes_change_quickly_and_so_do_the_bounds(training: Training) -> None:
    """The first two workers were started with the bounds 2:2."""
    elastic = training.elastic
    await training.submit(2, 2, notes=PINNED)
    await training.until_world(2)
    await elastic.edit({"spec": {"minReplicas": 1, "maxReplicas": 4}})
    for size in (4, 1, 3):
        await elastic.scale(size)
        await training.until_target(size)
    await training.until_world(3)
    assert "j-worker-0" in await elastic.workers(), "who was there first has stayed"
    await elastic.scale(1)
    await training.until_world(1)
    assert await elastic.until_running(1) == ["j-worker-0"]
    assert await training.failed() == 0


async def test_all_workers_are_driven_out_and_resume_from_their_checkpoint_when_room_returns(tmp_path: Path) -> None:
    async with embedded(tmp_path, nodes=1, working_dir=ROOT) as backend:
        training = Training(await Story.begin(backend), tmp_path)
        elastic, client = training.elastic, backend.client
        await training.submit(2, 2, steps=300, pause=0.02)
        await training.until_world(2)
        await elastic.until(training.has_saved, "a checkpoint")
        (node,) = (await client.list(NODES)).items
        await client.patch(NODES, node["metadata"]["name"], {"spec": {"unschedulable": True}})
        for name in await elastic.workers():  # as `kubectl drain` does
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
            await client.create(PODS, eviction, name=name, namespace=elastic.namespace, subresource="eviction")
        await elastic.until_running(0)
        await elastic.until_phase("Restarting")
        step, since = training.saved, time.monotonic()
        await client.patch(NODES, node["metadata"]["name"], {"spec": {"unschedulable": None}})
        await elastic.until_phase("Succeeded")
        assert training.saved == 300
        assert training.steps(since)[0]["step"] == step + 1, "nothing before the checkpoint was trained again"
        assert await training.failed() == 0


async def test_a_script_that_cannot_be_imported_fails_the_job_with_its_words(training: Training) -> None:
    broken = training.folder / "broken.py"
    broken.write_text("import no_such_module\n")
    patient = {"edl.dev/fail-fast": "false"}  # else two rounds in one pod are enough
    await training.submit(1, 1, command=f"torchrun {broken}", notes=patient, runPolicy={"backoffLimit": 1})
    status = await training.elastic.until_phase("Failed")
    assert "No module named 'no_such_module'" in status["rootCause"]["message"], status["rootCause"]
    assert "No module named 'no_such_module'" in status["reason"], status["reason"]
    assert await training.failed() == 2


async def test_a_worker_that_hangs_is_replaced_though_the_script_reports_nothing(training: Training) -> None:
    elastic = training.elastic
    await training.submit(2, 2, notes={"edl.dev/stall-timeout": "8s"})
    await training.until_world(2)
    hung = of_pod(training.uid, "j-worker-1")[-1]  # the youngest process of the pod is the one that trains
    os.kill(hung, signal.SIGSTOP)
    await training.until_world(2)
    events = (await elastic.client.list(EVENTS, namespace=elastic.namespace)).items
    assert any(event["reason"] == "WorkerStalled" for event in events), [event["note"] for event in events]
