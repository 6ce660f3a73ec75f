"""What workers noted of their steps: pauses, steps lost, samples repeated and missing, the cost of a step.

A step that was done again from a checkpoint counts once, as it was done last: what was done before is lost. Samples are
counted over whole epochs, in steps that are not lost.
"""

import json
import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

Line = dict[str, Any]


@dataclass(frozen=True)
class Pause:
    seconds: float
    steps: float
    """The same, in the job's own steps before."""
    lost: int
    """Steps that were done before and had to be done again."""


class Ledger:
    """Files are read as they grow."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._places: dict[Path, int] = {}
        self._lines: dict[str, list[Line]] = {"took": [], "did": []}

    def lines(self, what: str = "did") -> list[Line]:
        """Of steps that happened, or of samples that were taken for one."""
        for file in self._folder.glob("*.jsonl"):
            for line in self._more(file):
                self._lines[line["what"]].append(line)
        self._lines[what].sort(key=lambda line: float(line["at"]))
        return self._lines[what]

    def _more(self, file: Path) -> list[Line]:
        with file.open("rb") as opened:
            opened.seek(self._places.get(file, 0))
            whole, newline, _ = opened.read().rpartition(b"\n")
        self._places[file] = self._places.get(file, 0) + len(whole) + len(newline)
        return [{**json.loads(line), "pid": int(file.stem)} for line in whole.splitlines()]

    def count(self, world: int, since: float) -> int:
        """Steps that the slowest rank of such a group has done."""
        ranks = Counter(line["rank"] for line in self.lines() if line["world"] == world and line["at"] > since)
        return min((ranks[rank] for rank in range(world)), default=0)

    # ---- changes

    def pause(self, since: float, before: int, after: int) -> Pause:
        """Of a change that was begun at a time, from a group of one size to one of another: all time in which an old
        group had made its last step and the next one not its first, if there were several."""
        lines = self.lines()
        end = min(line["at"] for line in lines if line["world"] == after and line["at"] > since)
        last = max(line["at"] for line in lines if line["world"] == before and line["at"] < end)
        window = [line for line in lines if last <= line["at"] <= end]
        gaps = [second["at"] - first["at"] for first, second in pairwise(window) if _group(first) != _group(second)]
        return Pause(sum(gaps), sum(gaps) / self.step_time(before, last), self._lost(last, end))

    def step_time(self, world: int, until: float) -> float:
        """Between steps of one worker of a group that ended then; the median of the last ones."""
        lines = [line for line in self.lines() if line["world"] == world and line["at"] <= until]
        own: list[float] = [line["at"] for line in lines if line["pid"] == lines[-1]["pid"]][-20:]
        return statistics.median(later - earlier for earlier, later in pairwise(own))

    def _lost(self, last: float, end: float) -> int:
        reached: int = max(line["step"] for line in self.lines() if line["at"] <= last)
        begun: int = min(line["step"] for line in self.lines() if line["at"] == end)
        return max(0, reached + 1 - begun)

    # ---- samples

    def kept(self) -> list[Line]:
        """What was taken for steps that are part of the model at the end."""
        bounds, least = {}, float("inf")
        first: dict[float, int] = {}
        done = {(line["generation"], line["step"]) for line in self.lines()}
        for generation, step in done:
            first[generation] = min(first.get(generation, step), step)
        for generation in sorted(first, reverse=True):
            bounds[generation] = least
            least = min(least, first[generation])
        kept = {(generation, step) for generation, step in done if step < bounds[generation]}
        return [line for line in self.lines("took") if (line["generation"], line["step"]) in kept]

    def samples(self, of_an_epoch: int) -> tuple[int, int]:
        """Repeated and missing, in epochs that are over."""
        epochs: dict[int, Counter[int]] = {}
        for line in self.kept():
            epochs.setdefault(line["epoch"], Counter()).update(line["samples"])
        epochs.pop(max(epochs, default=0), None)
        repeated = sum(found.total() - len(found) for found in epochs.values())
        return repeated, sum(of_an_epoch - len(found) for found in epochs.values())

    def committed(self, since: float, until: float) -> int:
        """Samples of steps in a time that were not lost."""
        return sum(len(line["samples"]) for line in self.kept() if since <= line["at"] <= until)

    # ---- cost

    def cost(self, first: int, last: int) -> tuple[float, float]:
        """Wall time and CPU time of all workers, in seconds a step, from one step to another."""
        return self._between(first, last, "at", statistics.median), self._between(first, last, "cpu", sum)

    def _between(self, first: int, last: int, what: str, combine: Callable[[list[float]], float]) -> float:
        """A worker's own clock, at the end of these steps."""
        values: dict[int, dict[int, float]] = {}
        for line in self.lines():
            values.setdefault(line["pid"], {})[line["step"]] = line[what]
        spans = [steps[last] - steps[first] for steps in values.values() if first in steps and last in steps]
        return combine(spans) / (last - first)


def _group(line: Line) -> tuple[float, int]:
    return line["generation"], line["world"]
