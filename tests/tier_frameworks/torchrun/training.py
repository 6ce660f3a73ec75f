"""One ElasticJob of real torchrun workers that run `examples/pytorch/train.py`, and what they wrote down."""

import json
import time
from pathlib import Path
from typing import Any

import torch

from edl.kube.rest.resource import Resource
from tests.stories.elastic import Elastic
from tests.stories.story import Story

ROOT = Path(__file__).parents[3]
STATES = Resource("", "v1", "configmaps", "ConfigMap")
EVERY = 5
PLAIN = "torchrun examples/pytorch/train.py"


class Training:
    def __init__(self, story: Story, folder: Path) -> None:
        story.patience = 150.0
        self.elastic, self.folder, self.uid = Elastic(story), folder, ""
        self.trace = folder / "trace"
        self.trace.mkdir()

    def script(self, steps: int = 100_000, pause: float = 0.05, command: str = PLAIN) -> str:
        options = f"--steps {steps} --pause {pause} --every {EVERY}"
        return f"exec {command} {options} --checkpoint {self.folder}/model.pt --trace {self.trace}"

    async def submit(self, least: int, most: int, *, env: dict[str, str] | None = None, **more: Any) -> None:
        variables = {"OMP_NUM_THREADS": "1"} | (env or {})
        container = {"env": [{"name": name, "value": value} for name, value in variables.items()]}
        own = {key: more.pop(key) for key in ("steps", "pause", "command") if key in more}
        made = await self.elastic.submit(self.script(**own), least, most, container=container, **more)
        self.uid = made["metadata"]["uid"]

    def steps(self, since: float = 0.0) -> list[dict[str, Any]]:
        found = []
        for file in self.trace.glob("*.jsonl"):
            lines = file.read_text().splitlines(keepends=True)
            found += [json.loads(line) | {"pid": file.stem} for line in lines if line.endswith("\n")]
        return sorted((line for line in found if line["at"] > since), key=lambda line: line["at"])

    @property
    def saved(self) -> int:
        step: int = torch.load(self.folder / "model.pt", weights_only=True)["step"]
        return step

    async def has_saved(self) -> bool:
        return (self.folder / "model.pt").exists()

    async def until_target(self, size: int) -> None:
        """The operator has taken up a scale; whether the workers have followed is another question."""

        async def reached() -> bool:
            return bool((await self.elastic.status()).get("scale", {}).get("target") == size)

        await self.elastic.until(reached, f"a target of {size}")

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

    async def failed(self) -> int:
        status = await self.elastic.status()
        count: int = status["replicaStatuses"]["Worker"].get("failed", 0)
        return count
