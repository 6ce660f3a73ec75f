"""An EasyDL job that states no resources, trained to its end by EDL's own trainer, servers and workers."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from edl.operator.resources import JOB_RESOURCES, PODS
from tests.stories.easydl import JOBS
from tests.stories.easydl_planned import WORKER, Ledger, hungry_job
from tests.stories.story import Story

EXAMPLES = Path(__file__).parents[2] / "examples"
CHUNKS = 24
# The roles are on both in the other stories, and a real kernel kills in tests/tier_kube.
EMBEDDED = pytest.mark.parametrize("story", ["embedded"], indirect=True)


def manifest(story: Story, ledger: Path) -> dict[str, Any]:
    """The example as it stands, but for where its script is, how much there is to learn, and how often it plans."""
    found: dict[str, Any] = yaml.safe_load((EXAMPLES / "easydl" / "ctr.yaml").read_text())
    found["metadata"] |= {"namespace": story.namespace, "annotations": {"edl.dev/freezing-window": "0s"}}
    spec = found["spec"]
    worker = spec["worker"]["template"]["spec"]["containers"][0]
    worker["command"] = ["python", str(EXAMPLES / "ctr" / "train.py")]
    settings = {"SAMPLES": 2400, "CHUNKS": CHUNKS, "BATCH": 50, "SECONDS_PER_TASK": 0.3, "LEDGER": ledger}
    worker["env"] = [{"name": name, "value": str(value)} for name, value in settings.items()]
    env = [{"name": "EDL_PLAN_SECONDS", "value": "1"}, {"name": "EDL_CHECKPOINT_SECONDS", "value": "1"}]
    trainer = {"name": "main", "image": "edl", "command": ["edl", "trainer"], "env": env}
    spec["trainer"] = {"template": {"spec": {"containers": [trainer]}}}
    return found


async def until_over(story: Story, name: str = "ctr") -> dict[str, Any]:
    async def over() -> dict[str, Any] | None:
        status: dict[str, Any] = (await story.client.get(JOBS, name, namespace=story.namespace)).get("status") or {}
        return status if status.get("phase") in ("Succeeded", "Failed") else None

    found: dict[str, Any] = await story.until(over, "the job has ended")
    return found


def each_once(ledger: Path) -> bool:
    """Every part of the data counted once, whoever died on the way."""
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    counted = Counter(line["chunk"] for line in lines if line["kind"] == "acknowledged" and line["counted"])
    return counted == Counter(range(CHUNKS))


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

    status = await until_over(story)
    assert (status["phase"], status["reason"]) == ("Succeeded", "the trainer finished")
    assert status["replicaStatuses"]["trainer"]["succeeded"] == 1
    assert each_once(ledger)


@EMBEDDED
async def test_the_example_that_takes_its_records_in_shards(story: Story, tmp_path: Path) -> None:
    """As it stands, but for where its script is, and that it writes down what it learned."""
    job = yaml.safe_load((EXAMPLES / "easydl" / "job.yaml").read_text())
    job["metadata"] |= {"namespace": story.namespace, "name": "ctr"}
    worker = job["spec"]["worker"]["template"]["spec"]["containers"][0]
    settings = {"RECORDS": 4096, "SHARD": 64, "LEDGER": tmp_path / "ledger"}
    worker["env"] = [{"name": name, "value": str(value)} for name, value in settings.items()]
    worker["command"] = ["python", str(EXAMPLES / "easydl" / "train.py")]
    await story.create(JOBS, job)
    status = await until_over(story)
    assert (status["phase"], status["reason"]) == ("Succeeded", "the trainer finished")
    ledger = Ledger(tmp_path)
    trained = {(line["epoch"], line["shard"]) for line in ledger.lines("trained")}
    assert trained == {(epoch, shard) for epoch in range(2) for shard in range(64)}
    for end in ledger.lines("end"):
        assert end["loss"] < 0.8 * end["guess"], "it has learned something"


@EMBEDDED
async def test_a_worker_with_too_little_memory_gets_more_without_anybody(story: Story, tmp_path: Path) -> None:
    """It is killed for taking more than the 128 MiB of this cold start, and lives with twice as much."""
    await story.create(JOBS, hungry_job(tmp_path))
    plan = await story.until(lambda: story.get(JOB_RESOURCES, "hungry"), "the trainer's first plan")
    assert plan["spec"]["worker"] == {"replicas": 1, "resource": {"cpu": 0.5, "memory": 128}}
    status = await until_over(story, "hungry")
    assert (status["phase"], status["replicaStatuses"]["worker"]["failed"]) == ("Succeeded", 1)
    [killed] = await story.pods("worker", "hungry", phase="Failed")
    pod = await story.get(PODS, killed) or {}
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] == "OOMKilled"
    plan = await story.get(JOB_RESOURCES, "hungry") or {}
    assert plan["spec"]["worker"]["resource"]["memory"] == 256
    assert plan["spec"]["parameter_server"]["resource"]["memory"] == 128, "who has enough is given no more"


async def test_parameter_servers_move_with_their_shards_and_all_may_be_lost(story: Story, tmp_path: Path) -> None:
    """By a plan made by hand, which the job's trainer leaves alone. Every record counts into a parameter of its own."""
    ledger, records, epochs = Ledger(tmp_path), 3000, 2
    job = manifest(story, tmp_path / "ledger")
    container = job["spec"]["worker"]["template"]["spec"]["containers"][0]
    variables = {"COUNT": 1, "RECORDS": records, "EPOCHS": epochs, "OWN": 0.2, "SHARED": 0, "FOLDER": tmp_path}
    container["command"] = ["python", str(WORKER)]
    container["env"] += [{"name": name, "value": str(value)} for name, value in variables.items()]
    server = job["spec"]["parameterServer"]["template"]["spec"]["containers"][0]
    server["resources"] = {"requests": {"memory": "64Mi"}, "limits": {"memory": "256Mi"}}  # not to be resized in place
    await story.create(JOB_RESOURCES, by_hand())
    await story.create(JOBS, job)
    await story.until(lambda: trained(ledger, 5), "the job learns")

    before = min(ledger.losses)
    updates = [{"name": f"ctr-ps-{index}", "resource": {"cpu": "250m"}} for index in (0, 1)]
    change = {"spec": {"resource_updation": updates}}
    await story.client.patch(JOB_RESOURCES, "ctr-by-hand", change, namespace=story.namespace)
    await story.until(lambda: moved(story), "both servers have moved")
    count = len(ledger.losses)
    await story.until(lambda: trained(ledger, count + 5), "the job goes on learning")
    assert max(ledger.losses[count:]) < 1.3 * before, "nothing is forgotten when servers move"

    for name in await story.pods("ps", "ctr"):
        await story.delete(PODS, name, grace=0)
    count = len(ledger.losses)
    await story.until(lambda: trained(ledger, count + 5), "the job goes on without the servers that it had")
    (tmp_path / "release").touch()
    status = await until_over(story)
    assert (status["phase"], status["reason"]) == ("Succeeded", "the trainer finished")
    assert status["replicaStatuses"]["ps"].get("failed", 0) == 0
    ends = {(line["least"], line["most"]) for line in ledger.lines("end")}
    assert ends == {(epochs, epochs)}, "a record was lost or counted twice"


def by_hand() -> dict[str, Any]:
    plan: dict[str, Any] = yaml.safe_load((EXAMPLES / "easydl" / "resources.yaml").read_text())
    for role in ("parameter_server", "worker"):
        plan["spec"][role]["resource"] = {"cpu": "200m"}
    del plan["spec"]["resource_updation"]
    return plan


async def trained(ledger: Ledger, count: int) -> bool:
    return len(ledger.losses) >= count


async def moved(story: Story) -> bool:
    found = await story.client.get(JOB_RESOURCES, "ctr-by-hand", namespace=story.namespace)
    states = [one["state"] for one in found["status"].get("updates", ())]
    return found["status"].get("observedGeneration") == found["metadata"]["generation"] and states == ["done", "done"]
