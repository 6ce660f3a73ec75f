"""An EasyDL job that states no resources, trained to its end by EDL's own trainer, servers and workers."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from edl.operator.resources import JOB_RESOURCES, PODS
from tests.stories.easydl import JOBS
from tests.stories.story import Story

EXAMPLES = Path(__file__).parents[2] / "examples"
CHUNKS = 24


def manifest(story: Story, ledger: Path) -> dict[str, Any]:
    """The example as it stands, but for where its script is, how much there is to learn, and how often it plans."""
    found: dict[str, Any] = yaml.safe_load((EXAMPLES / "easydl" / "ctr.yaml").read_text())
    found["metadata"] |= {"namespace": story.namespace, "annotations": {"edl.dev/freezing-window": "0s"}}
    spec = found["spec"]
    worker = spec["worker"]["template"]["spec"]["containers"][0]
    worker["command"] = ["python", str(EXAMPLES / "ctr" / "train.py")]
    settings = {"SAMPLES": 2400, "CHUNKS": CHUNKS, "BATCH": 50, "SECONDS_PER_TASK": 0.3, "LEDGER": ledger}
    worker["env"] = [{"name": name, "value": str(value)} for name, value in settings.items()]
    env = [{"name": "EDL_PLAN_SECONDS", "value": "1"}]
    trainer = {"name": "main", "image": "edl", "command": ["edl", "trainer"], "env": env}
    spec["trainer"] = {"template": {"spec": {"containers": [trainer]}}}
    return found


async def test_a_job_without_resources_is_planned_trained_and_ended_by_its_trainer(
    story: Story, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    await story.create(JOBS, manifest(story, ledger))
    plan = await story.until(lambda: story.get(JOB_RESOURCES, "ctr"), "the trainer has posted a plan")
    assert plan["metadata"]["ownerReferences"][0]["name"] == "ctr"
    assert plan["metadata"]["annotations"]["edl.dev/plan-reason"]
    await story.until(lambda: story.pods("worker", "ctr"), "workers run by it")
    [victim] = await story.pods("trainer", "ctr")
    await story.delete(PODS, victim, grace=0)  # and the next one goes on

    async def over() -> dict[str, Any] | None:
        status: dict[str, Any] = (await story.client.get(JOBS, "ctr", namespace=story.namespace)).get("status") or {}
        return status if status.get("phase") in ("Succeeded", "Failed") else None

    status = await story.until(over, "the job has ended")
    assert (status["phase"], status["reason"]) == ("Succeeded", "the trainer finished")
    assert status["replicaStatuses"]["trainer"]["succeeded"] == 1
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    counted = Counter(line["chunk"] for line in lines if line["kind"] == "acknowledged" and line["counted"])
    assert counted == Counter(range(CHUNKS))  # every part of the data once
