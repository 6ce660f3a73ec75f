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
FIT = EXAMPLES / "fit_a_line" / "train.py"
WORKSPACE = "/home/job-1/"
CHUNKS, PASSES = 12, 10

# What the image of the samples would bring: `train.py` in the workspace.
SCRIPT = f"""
import os, runpy
ledger = os.path.join(os.environ["EDL_DATA_DIR"], "ledger")
os.environ.update(SAMPLES="1200", CHUNKS="{CHUNKS}", BATCH="50", SECONDS_PER_TASK="0.1", LEDGER=ledger)
runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), "fit.py"), run_name="__main__")
"""


def workspace(root: Path, script: str = SCRIPT, **others: Path) -> Path:
    """A directory with `train.py` and copies of other programs, which users may read."""
    made = root / "workspace"
    made.mkdir()
    (made / "train.py").write_text(script)
    for name, path in others.items():
        (made / f"{name}.py").write_text(path.read_text())
    return made


def directory(root: Path, name: str) -> Path:
    """Where any user may write."""
    made = root / name
    made.mkdir()
    made.chmod(0o777)
    return made


def sample(name: str, namespace: str, image: str, files: Path, data: Path) -> dict[str, Any]:
    """The manifest as it stands, in another namespace; its image's files and its data are on the machine."""
    manifest: dict[str, Any] = yaml.safe_load((EXAMPLES / name).read_text())
    manifest["metadata"]["namespace"] = namespace
    container = {"name": "trainer", "volumeMounts": [{"name": "image", "mountPath": WORKSPACE}]}
    volume = {"name": "image", "hostPath": {"path": str(files)}}
    manifest["spec"]["trainer"]["template"] = {"spec": {"containers": [container], "volumes": [volume]}}
    manifest["spec"] |= {"image": image, "volumes": [{"name": "data", "hostPath": {"path": str(data)}}]}
    return manifest


SAMPLES = ("trainingjob.yaml", "trainingjob-v1alpha1.yaml")


@pytest.mark.case("acceptance-samples")
@pytest.mark.timeout(240)
async def test_the_samples_train_to_the_end_and_grow_on_the_way(story_on_both: Story, tmp_path: Path) -> None:
    """Each in a namespace of its own; both at once where there is room."""
    backend, files = story_on_both.backend, workspace(tmp_path, fit=FIT)
    for names in [SAMPLES] if backend.core >= 1000 else [(name,) for name in SAMPLES]:
        stories = {name: await Story.begin(backend) for name in names}
        try:
            for name, reported in stories.items():
                data = directory(tmp_path, f"data-{name}")
                await _submit(reported, sample(name, reported.namespace, backend.python, files, data))
            for name, reported in stories.items():
                await _trained(reported, tmp_path / f"data-{name}" / "ledger")
        finally:
            for reported in stories.values():
                await reported.end()  # else these jobs would crowd the stories that follow


async def _submit(story: Story, manifest: dict[str, Any]) -> None:
    """In the version that it is written in."""
    resource = msgspec.structs.replace(TRAINING_JOBS, version=manifest["apiVersion"].rpartition("/")[2])
    await story.client.create(resource, manifest, namespace=story.namespace)


@pytest.mark.parametrize("name", SAMPLES)
async def test_a_samples_size_follows_the_cluster(tmp_path: Path, name: str) -> None:
    """On a node of four cores: an online service that wants two of them comes and goes, then training begins."""
    wait, data = tmp_path / "wait", directory(tmp_path, "their-data")
    wait.touch()
    hold = f"import os, time\nwhile os.path.exists({str(wait)!r}):\n    time.sleep(0.05)\n"
    files = workspace(tmp_path, hold + SCRIPT, fit=FIT)
    async with embedded(tmp_path, nodes=1, cpu="4") as backend:
        story = await Story.begin(backend)
        manifest = sample(name, story.namespace, "any", files, data)
        manifest["metadata"]["annotations"] = {"edl.dev/freezing-window": "0s"}
        await _submit(story, manifest)
        await story.until_running(6, name="paddlejob")
        await story.create(PODS, _service("2"))
        await story.until(lambda: _runs(story, "web"), "the service has its room")
        await story.until_running(2, name="paddlejob")
        await story.delete(PODS, "web")
        await story.until_running(6, name="paddlejob")
        wait.unlink()
        await _trained(story, data / "ledger")


SHARES = f"""
import json, os
from edl.trainer import Trainer
with Trainer() as trainer:
    for task in trainer.tasks(chunks={CHUNKS}):
        line = {{"index": int(os.environ["EDL_INDEX"]), "pass": task.pass_index, "chunk": task.chunk}}
        with open(os.path.join(os.environ["EDL_DATA_DIR"], "ledger"), "ab", buffering=0) as ledger:
            ledger.write(json.dumps(line).encode() + b"\\n")
"""


@pytest.mark.case("acceptance-13")
@pytest.mark.timeout(240)
async def test_without_a_master_each_trainer_trains_its_share(story_on_both: Story, tmp_path: Path) -> None:
    """As design 000 says how to have a job that is not scaled."""
    story, data, files = story_on_both, directory(tmp_path, "their-data"), workspace(tmp_path, SHARES)
    manifest = sample(SAMPLES[0], story.namespace, story.backend.python, files, data)
    for role in ("master", "pserver"):
        del manifest["spec"][role]
    manifest["spec"]["trainer"]["passes"] = 2
    await _submit(story, manifest)
    status = await story.until_phase("succeeded", "paddlejob")
    assert status["reason"] == "all 2 trainers finished", "as many as its minimum, though there is room for more"
    done = sorted((line["pass"], line["chunk"], line["index"]) for line in _lines(data / "ledger"))
    assert done == [(number, chunk, chunk % 2) for number in range(2) for chunk in range(CHUNKS)]


def _service(cpu: str) -> dict[str, Any]:
    command = ["sh", "-c", "trap 'kill $!; exit 0' TERM; sleep 3600 & wait"]
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
