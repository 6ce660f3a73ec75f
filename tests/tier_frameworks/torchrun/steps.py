"""What workers with a Checkpointer wrote down: which steps were done by whom, and what the model was after them."""

import json
from pathlib import Path
from typing import Any

from tests.tier_frameworks.torchrun.group import until

NEVER = 100_000


class Steps:
    """Which steps were done by whom."""

    def __init__(self, trace: Path) -> None:
        self._trace = trace

    def lines(self) -> list[dict[str, Any]]:
        found = []
        for file in self._trace.glob("*.jsonl"):
            lines = file.read_text().splitlines(keepends=True)
            found += [{**json.loads(line), "pid": int(file.stem)} for line in lines if line.endswith("\n")]
        return sorted(found, key=lambda line: line["at"])

    def pids(self) -> set[int]:
        return {line["pid"] for line in self.lines()}

    def last(self) -> int:
        return max((line["step"] for line in self.lines()), default=0)

    def until_steps(self, world: int, more: int = 3) -> None:
        """Waits until all ranks of a world of this size have done some steps from now on."""
        before = len(self.lines())

        def ask() -> bool:
            fresh = [line for line in self.lines()[before:] if line["world"] == world]
            return all(sum(line["rank"] == rank for line in fresh) >= more for rank in range(world))

        until(ask, f"training with {world} workers")

    def first_of_others(self, known: set[int]) -> int:
        """The first step that somebody else did than these."""
        return min(int(line["step"]) for line in self.lines() if line["pid"] not in known)

    def assert_in_step(self) -> None:
        """Whoever did a step last had the same model after it as all who did it with them."""
        models: dict[tuple[int, int], set[float]] = {}
        starts: dict[int, int] = {}
        for line in self.lines():
            starts.setdefault(line["pid"], line["step"])
            models.setdefault((line["step"], starts[line["pid"]]), set()).add(line["model"])
        assert all(len(one) == 1 for one in models.values()), "ranks began with different checkpoints"

    def assert_nothing_twice(self) -> None:
        done = [(line["step"], line["rank"]) for line in self.lines()]
        assert len(done) == len(set(done)), "a step was done again"
