"""Stories of real training: the samples of the designs, with a script that learns, on EDL's own master and servers."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from edl.operator.resources import PODS, TRAINING_JOBS
from tests.stories.backend import embedded
from tests.stories.story import Story

EXAMPLES = Path(__file__).parents[2] / "examples"
WORKSPACE = "/home/job-1/"
CHUNKS, PASSES = 12, 10

# What the image of the samples would bring: `train.py` in the workspace.
SCRIPT = f"""
import os, runpy
ledger = os.path.join(os.environ["EDL_DATA_DIR"], "ledger")
os.environ.update(SAMPLES="1200", CHUNKS="{CHUNKS}", BATCH="50", SECONDS_PER_TASK="0.1", LEDGER=ledger)
runpy.run_path({str(EXAMPLES / "fit_a_line" / "train.py")!r}, run_name="__main__")
"""


def sample(name: str, namespace: str, workspace: Path) -> dict[str, Any]:
    """The manifest as it stands, in another namespace; its image's files come from a directory of the machine."""
    manifest: dict[str, Any] = yaml.safe_load((EXAMPLES / name).read_text())
    manifest["metadata"]["namespace"] = namespace
    container = {"name": "trainer", "volumeMounts": [{"name": "image", "mountPath": WORKSPACE}]}
    volume = {"name": "image", "hostPath": {"path": str(workspace)}}
    manifest["spec"]["trainer"]["template"] = {"spec": {"containers": [container], "volumes": [volume]}}
    return manifest


async def test_the_samples_train_to_the_end_and_grow_on_the_way(story: Story, tmp_path: Path) -> None:
    """Both at once, each in a namespace of its own."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "train.py").write_text(SCRIPT)
    stories = {name: await Story.begin(story.backend) for name in ("trainingjob.yaml", "trainingjob-v1alpha1.yaml")}
    try:
        for name, told in stories.items():
            await _submit(told, sample(name, told.namespace, workspace))
        for told in stories.values():
            await _trained(told, tmp_path / "data" / told.namespace / "paddlejob" / "ledger")
    finally:
        for told in stories.values():
            await told.end()  # else these jobs would crowd the stories that follow


async def _submit(story: Story, manifest: dict[str, Any]) -> None:
    """In the version that it is written in."""
    resource = msgspec.structs.replace(TRAINING_JOBS, version=manifest["apiVersion"].rpartition("/")[2])
    await story.client.create(resource, manifest, namespace=story.namespace)


@pytest.mark.parametrize("name", ["trainingjob.yaml", "trainingjob-v1alpha1.yaml"])
async def test_a_samples_size_follows_the_cluster(tmp_path: Path, name: str) -> None:
    """On a node of four cores: an online service that wants two of them comes and goes, then training begins."""
    workspace, wait = tmp_path / "workspace", tmp_path / "wait"
    workspace.mkdir()
    wait.touch()
    hold = f"import os, time\nwhile os.path.exists({str(wait)!r}):\n    time.sleep(0.05)\n"
    (workspace / "train.py").write_text(hold + SCRIPT)
    async with embedded(tmp_path, nodes=1, cpu="4") as backend:
        story = await Story.begin(backend)
        manifest = sample(name, story.namespace, workspace)
        manifest["metadata"]["annotations"] = {"edl.dev/freezing-window": "0s"}
        await _submit(story, manifest)
        await story.until_running(6, name="paddlejob")
        await story.create(PODS, _service("2"))
        await story.until(lambda: _runs(story, "web"), "the service has its room")
        await story.until_running(2, name="paddlejob")
        await story.delete(PODS, "web")
        await story.until_running(6, name="paddlejob")
        wait.unlink()
        await _trained(story, tmp_path / "data" / story.namespace / "paddlejob" / "ledger")


def _service(cpu: str) -> dict[str, Any]:
    command = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.05; done"]
    container = {"name": "web", "image": "any", "command": command, "resources": {"requests": {"cpu": cpu}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": [container]}}


async def _runs(story: Story, name: str) -> bool:
    pod = await story.get(PODS, name)
    return pod is not None and pod.get("status", {}).get("phase") == "Running"


async def _trained(story: Story, ledger: Path) -> None:
    status = await story.until_phase("succeeded", "paddlejob")
    sizes = [change["to"] for change in status["scale_status"]["history"]]
    assert max(sizes) == 6, "there was room for all"
    lines = _lines(ledger)
    once = dict.fromkeys(((number, chunk) for number in range(PASSES) for chunk in range(CHUNKS)), 1)
    assert _tasks(line for line in lines if line["kind"] == "trained") == once, "each task is trained once per pass"
    assert _tasks(line for line in lines if line.get("counted")) == once, "and counts once"
    await story.until_running(0, "master", "paddlejob")
    await story.until_running(0, "pserver", "paddlejob")


def _lines(ledger: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ledger.read_text().splitlines()]


def _tasks(lines: Iterable[dict[str, Any]]) -> Counter[tuple[int, int]]:
    return Counter((line["pass"], line["chunk"]) for line in lines)
