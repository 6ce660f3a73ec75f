"""The ring-allreduce example of EasyDL with real torchrun workers: planned by the pace that the script tells; and by
hand, with a worker that is killed."""

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from edl.operator.resources import JOB_RESOURCES
from tests.stories.backend import embedded
from tests.stories.easydl import JOBS
from tests.stories.processes import kill_pod
from tests.stories.story import Story

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[3]
HELD = Path(__file__).parent / "held_allreduce.py"
PATIENT = HELD.with_name("patient_allreduce.py")
ONE = {"replicas": 1, "resource": {"cpu": "500m"}}
QUICK = {"EDL_PLAN_SECONDS": "2", "EDL_PLAN_SETTINGS": '{"max_workers": 3}'}


def variables(values: dict[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]


class Example:
    """As it stands, but for how long it takes, and how often its trainer plans."""

    def __init__(self, story: Story, root: Path) -> None:
        self.story, self._data, self.uid = story, root / "data", ""

    async def submit(self, *words: str, script: Path | None = None, **env: str) -> None:
        """`script` in the place of its own, with a further environment."""
        job: dict[str, Any] = yaml.safe_load((ROOT / "examples" / "easydl" / "allreduce.yaml").read_text())
        job["metadata"] |= {"annotations": {"edl.dev/freezing-window": "0s"}}
        worker = job["spec"]["worker"]["template"]["spec"]["containers"][0]
        worker["command"] += words
        if script is not None:
            worker["command"][1] = str(script)
        worker["env"] = variables({"OMP_NUM_THREADS": "1", "EDL_USAGE_SECONDS": "1"} | env)
        trainer = {"name": "main", "image": "edl", "command": ["edl", "trainer"], "env": variables(QUICK)}
        job["spec"]["trainer"] = {"template": {"spec": {"containers": [trainer]}}}
        self.uid = (await self.story.create(JOBS, job))["metadata"]["uid"]

    async def saved_by(self, workers: int) -> bool:
        return bool(self.checkpoint()["workers"] == workers)

    def checkpoint(self) -> dict[str, Any]:
        found = list(self._data.rglob("model.pt"))
        saved: dict[str, Any] = torch.load(found[0], weights_only=True) if found else {"step": 0, "workers": 0}
        return saved

    async def workers(self) -> int:
        """That the plan in force asks for."""
        plan = await self.story.get(JOB_RESOURCES, "allreduce")
        return plan["spec"]["worker"]["replicas"] if plan is not None else 0

    async def until_over(self) -> None:
        async def over() -> dict[str, Any] | None:
            found = await self.story.client.get(JOBS, "allreduce", namespace=self.story.namespace)
            status: dict[str, Any] = found.get("status") or {}
            return status if status.get("phase") in ("Succeeded", "Failed") else None

        status = await self.story.until(over, "the job has ended")
        assert (status["phase"], status["reason"]) == ("Succeeded", "the trainer finished")


async def test_the_example_is_planned_by_its_pace_and_trains_to_the_end(tmp_path: Path) -> None:
    async with embedded(tmp_path, working_dir=ROOT) as backend:
        story = await Story.begin(backend)
        story.patience = 200.0
        example = Example(story, tmp_path)
        go = tmp_path / "go"
        await example.submit("--steps=1000", "--pause=0.1", script=PATIENT, HURRY_AFTER=str(go))
        plan = await story.until(lambda: story.get(JOB_RESOURCES, "allreduce"), "the trainer's first plan")
        assert plan["spec"] == {"selector": {"name": "allreduce"}, "worker": plan["spec"]["worker"]}
        assert plan["spec"]["worker"]["replicas"] == 2

        async def grown() -> bool:
            return await example.workers() == 3

        await story.until(grown, "a further worker is tried, for the pace is known")
        await story.until(lambda: example.saved_by(3), "and trains with the others")
        go.touch()
        await example.until_over()
        assert example.checkpoint()["step"] == 1000


async def test_workers_come_by_hand_and_a_kill_costs_what_was_not_saved(tmp_path: Path) -> None:
    async with embedded(tmp_path, working_dir=ROOT) as backend:
        story = await Story.begin(backend)
        story.patience = 200.0
        example = Example(story, tmp_path)
        metadata = {"name": "by-hand", "namespace": story.namespace}
        plan = {"apiVersion": JOB_RESOURCES.api_version, "kind": JOB_RESOURCES.kind, "metadata": metadata}
        await story.create(JOB_RESOURCES, plan | {"spec": {"selector": {"name": "allreduce"}, "worker": ONE}})
        go = tmp_path / "go"
        await example.submit("--steps=150", "--pause=0.1", script=HELD, HOLD_AT="50", HOLD_UNTIL=str(go))
        await story.until(lambda: example.saved_by(1), "the first worker trains alone")
        change = {"spec": {"worker": ONE | {"replicas": 2}}}
        await story.client.patch(JOB_RESOURCES, "by-hand", change, namespace=story.namespace)
        await story.until(lambda: example.saved_by(2), "two train together")
        assert kill_pod(example.uid, "allreduce-worker-1")
        assert example.checkpoint()["step"] < 150
        go.touch()
        await example.until_over()
        assert example.checkpoint()["step"] == 150
