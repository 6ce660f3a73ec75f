"""EasyDL jobs that plan for themselves, on a whole cluster: the trainer alone at first, then what its plans ask for."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from edl.brain.client import BrainClient
from edl.brain.messages import Beginning
from edl.brain.policy.facts import Features
from edl.brain.tokens import mint
from edl.cli.main import main
from edl.embedded.brain import brain
from edl.operator.resources import JOB_RESOURCES
from tests.stories.easydl import JOBS, EasydlStory
from tests.stories.story import Data, Story

ROOT = Path(__file__).parents[2]
RECORDS, SHARD, EPOCHS = 4096, 64, 2
EMBEDDED = pytest.mark.parametrize("story", ["embedded"], indirect=True)  # the roles' pods are tried on both elsewhere
SHARDS = {(epoch, number) for epoch in range(EPOCHS) for number in range(RECORDS // SHARD)}


def job(story: Story, folder: Path, **variables: str) -> Data:
    """The example's job; its pods see the repository and one directory for checkpoints and the ledger."""
    told = {"RECORDS": str(RECORDS), "SHARD": str(SHARD), "EPOCHS": str(EPOCHS), "LEDGER": str(folder / "ledger")}
    told |= {"EDL_CHECKPOINT_DIR": str(folder), "EDL_USAGE_SECONDS": "1", "OPENBLAS_NUM_THREADS": "1"}
    told |= {"EDL_PLAN_SECONDS": "2", "EDL_TASK_LEASE": "4", "SECONDS_PER_SHARD": "0.3"} | variables
    env = [{"name": name, "value": value} for name, value in told.items()]

    def role(*command: str, **more: Any) -> Data:
        container = {"name": "main", "image": story.backend.python, "command": list(command), "env": env}
        return {"template": {"spec": {"containers": [container]}}, **more}

    roles = {
        "trainer": role("edl", "trainer", restartCount=10),
        "parameterServer": role("edl", "pserver", restartCount=10),
        "worker": role("python", str(ROOT / "examples" / "easydl" / "train.py"), restartCount=20),
    }
    metadata = {"name": "j", "namespace": story.namespace, "annotations": {"edl.dev/freezing-window": "0s"}}
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": metadata, "spec": roles}


def ledger(folder: Path, kind: str) -> list[Data]:
    file = folder / "ledger"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [line for line in lines if line["kind"] == kind]


def check(folder: Path) -> None:
    """The ledger, which is no part of the product, knows every shard of every epoch; and something was learned."""
    trained = Counter((line["epoch"], line["shard"]) for line in ledger(folder, "trained") if not line["void"])
    assert set(trained) == SHARDS
    ends = ledger(folder, "end")
    assert ends
    assert ends[-1]["loss"] < ends[-1]["guess"]


async def plan(story: Story, generation: int = 1) -> Data | None:
    found = await story.get(JOB_RESOURCES, "j")
    return found if found and found["metadata"]["generation"] >= generation else None


def kill(role: str, namespace: str) -> None:
    """kill -9 of a process that a pod of this role runs, by the environment that it was given."""
    for process in psutil.process_iter():
        try:
            told, command = process.environ(), process.cmdline()
            ours = (told.get("EDL_ROLE"), told.get("EDL_JOB_NAMESPACE")) == (role, namespace)
            if ours and any(word.endswith(("/edl", "/train.py")) for word in command):
                process.kill()
                return
        except psutil.Error:
            continue
    raise AssertionError(f"no process of a {role} is there")


@EMBEDDED
@pytest.mark.timeout(300)
async def test_a_job_without_any_size_gets_one_grows_and_teaches_the_next(
    story: Story, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tale = EasydlStory(story)
    async with brain(tmp_path / "home") as known:
        access = {"EDL_BRAIN_URL": known.url, "EDL_BRAIN_TOKEN": mint(known.key, f"{story.namespace}/*")}
        await story.create(JOBS, job(story, tmp_path, **access))
        first = await story.until(lambda: plan(story), "the trainer's first plan")
        assert first["spec"]["worker"]["replicas"] == 2
        assert first["metadata"]["ownerReferences"][0]["name"] == "j"
        assert "no similar job" in first["metadata"]["annotations"]["edl.dev/plan-reason"]
        second = await story.until(lambda: plan(story, 2), "its second plan")
        assert second["spec"]["worker"]["replicas"] > 2
        await tale.until_phase("Succeeded")
        check(tmp_path)
        client = BrainClient(known.url, mint(known.key, "*"), timeout=30)
        detail = await asyncio.to_thread(client.job, f"{story.namespace}/j")
        assert detail.job.outcome == "succeeded"
        assert detail.plans
        assert detail.job.features.program.endswith("train.py")
        like = msgspec.structs.replace(detail.job.features, namespace="another")
        answer = await asyncio.to_thread(client.what_if, Beginning(like))
        assert answer.plan is not None
        assert answer.plan.rule == "start-similar"
        assert isinstance(like, Features)
        monkeypatch.setenv("EDL_HOME", str(tmp_path / "home"))
        assert await asyncio.to_thread(main, ["brain", "show", f"{story.namespace}/j"]) == 0
        assert "throughput by plan" in capsys.readouterr().out


@EMBEDDED
@pytest.mark.timeout(300)
async def test_kill_9_of_trainer_operator_server_and_worker_loses_no_record(story: Story, tmp_path: Path) -> None:
    tale = EasydlStory(story)
    await story.create(JOBS, job(story, tmp_path, SECONDS_PER_SHARD="0.15"))
    for number, victim in enumerate(("worker", "trainer", "operator", "ps"), 1):

        async def enough(goal: int = number * len(SHARDS) // 6) -> bool:
            return len(ledger(tmp_path, "trained")) >= goal

        await story.until(enough, f"something to lose when the {victim} is killed")
        if victim == "operator":
            await story.backend.kill_operator()
        else:
            kill(victim, story.namespace)
    await tale.until_phase("Succeeded")
    check(tmp_path)
