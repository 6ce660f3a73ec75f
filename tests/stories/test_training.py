"""Stories of real training: the samples of the designs, with a script that learns, on EDL's own master and servers."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import yaml

from edl.operator.resources import TRAINING_JOBS
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


def sample(name: str, story: Story, workspace: Path) -> dict[str, Any]:
    """The manifest as it stands, in the story's namespace; its image's files come from a directory of the machine."""
    manifest: dict[str, Any] = yaml.safe_load((EXAMPLES / name).read_text())
    manifest["metadata"]["namespace"] = story.namespace
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
    for name, told in stories.items():
        manifest = sample(name, told, workspace)
        version = manifest["apiVersion"].rpartition("/")[2]
        resource = msgspec.structs.replace(TRAINING_JOBS, version=version)
        await told.client.create(resource, manifest, namespace=told.namespace)
    for told in stories.values():
        await _trained(told, tmp_path / "data" / told.namespace / "paddlejob" / "ledger")


async def _trained(story: Story, ledger: Path) -> None:
    status = await story.until_phase("succeeded", "paddlejob")
    sizes = [change["to"] for change in status["scale_status"]["history"]]
    assert max(sizes) == 6, "there was room for all"
    counted = _counted(ledger)
    assert set(counted) == {(number, chunk) for number in range(PASSES) for chunk in range(CHUNKS)}
    assert set(counted.values()) == {1}, "each task counts once per pass"
    await story.until_running(0, "master", "paddlejob")
    await story.until_running(0, "pserver", "paddlejob")
    await story.end()


def _counted(ledger: Path) -> Counter[tuple[int, int]]:
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    return Counter((line["pass"], line["chunk"]) for line in lines if line.get("counted"))
