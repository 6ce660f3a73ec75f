"""What workers of `examples/pytorch/elastic.py` wrote down of their training, and whether it is exact."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from tests.tier_frameworks.torchrun.group import PATIENCE, until


class Ledger:
    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def lines(self, what: str) -> list[dict[str, Any]]:
        """`took`: before a step, its samples. `did`: a step that happened."""
        found = []
        for file in self.trace.glob("*.jsonl"):
            lines = file.read_text().splitlines(keepends=True)
            found += [{**json.loads(line), "pid": int(file.stem)} for line in lines if line.endswith("\n")]
        return sorted((line for line in found if line["what"] == what), key=lambda line: line["at"])

    def until_steps(self, world: int, more: int = 3, patience: float = PATIENCE) -> None:
        """Waits until all ranks of a world of this size have done some steps from now on."""
        before = len(self.lines("did"))

        def ask() -> bool:
            fresh = [line for line in self.lines("did")[before:] if line["world"] == world]
            return all(sum(line["rank"] == rank for line in fresh) >= more for rank in range(world))

        until(ask, f"training with {world} workers", patience)

    def pids(self) -> set[int]:
        """Of all workers that ever did a step."""
        return {line["pid"] for line in self.lines("did")}

    def pause(self, before: int, after: int) -> float:
        """Seconds without a step around the last change between worlds of these sizes."""
        done = self.lines("did")
        newest = done[-1]["generation"]
        first: float = min(line["at"] for line in done if line["world"] == after and line["generation"] == newest)
        last: float = max(line["at"] for line in done if line["world"] == before and line["at"] < first)
        return first - last

    def samples(self) -> dict[int, Counter[int]]:
        """By epoch, how often each sample was part of a step that happened."""
        rounds = _rounds(self.lines("did"))  # first, for what is done was taken before
        found: dict[int, Counter[int]] = {}
        for line in self.lines("took"):
            if rounds.get(line["step"]) == line["generation"]:
                found.setdefault(line["epoch"], Counter()).update(line["samples"])
        return found

    def assert_exact(self, samples: int = 1000) -> None:
        """Every sample once in every epoch (the last may be under way), every step once, one model at every step."""
        found = self.samples()
        *whole, last = sorted(found)
        assert [*whole, last] == list(range(last + 1))
        for epoch in whole:
            assert found[epoch] == Counter(range(samples)), f"epoch {epoch}"
        assert set(found[last].values()) == {1}
        self.assert_one_model()

    def assert_one_model(self) -> None:
        """Every step once, after which all workers have the same."""
        done = self.lines("did")
        rounds = _rounds(done)
        models: dict[int, set[float]] = {}
        for line in done:
            if line["generation"] == rounds[line["step"]]:
                models.setdefault(line["step"], set()).add(line["model"])
        assert sorted(models) == list(range(1, len(models) + 1)), "no step is missing"
        assert all(len(one) == 1 for one in models.values()), "workers differ"

    def results(self) -> list[dict[str, Any]]:
        """What workers had when all was done."""
        return [torch.load(file, weights_only=True) for file in self.trace.glob("*.pt")]


def _rounds(done: list[dict[str, Any]]) -> dict[int, int]:
    """The last round in which each step was done. If the only one that had done it was killed at once, the others do
    it again, and nothing of the first is left."""
    found: dict[int, int] = {}
    for line in done:
        found[line["step"]] = max(found.get(line["step"], 0), line["generation"])
    return found
