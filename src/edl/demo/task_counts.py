"""Counts in the trainers' own ledger whether each task of each pass was done exactly once.

The ledger is a file of the example scripts; EDL does not write it.
"""

import json
from collections import Counter
from collections.abc import Collection
from pathlib import Path

import msgspec


class TaskCounts(msgspec.Struct, frozen=True):
    """`once` of `tasks` were acknowledged one time. `unwritten`: finished by a trainer that was killed before it could
    write the line. `again`: trained once more, because the first time was not acknowledged before a kill."""

    tasks: int
    once: int
    twice: int
    unwritten: int
    again: int

    @property
    def exactly_once(self) -> bool:
        return self.twice == 0 and self.once + self.unwritten == self.tasks

    @property
    def text(self) -> str:
        said = [f"{self.once + self.unwritten} of {self.tasks} tasks done exactly once"]
        if self.twice:
            said.append(f"{self.twice} twice")
        if self.again:
            said.append(f"{self.again} begun again after a kill")
        return ", ".join(said)


def count_tasks(ledger: Path, *, chunks: int, passes: int, killed: Collection[int]) -> TaskCounts:
    """`killed`: process ids of trainers that were killed."""
    tasks = {(number, chunk) for number in range(passes) for chunk in range(chunks)}
    lines = [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []
    trained = Counter((line["pass"], line["chunk"]) for line in lines if line["kind"] == "trained")
    done = Counter(
        (line["pass"], line["chunk"], line["era"])
        for line in lines
        if line["kind"] == "acknowledged" and line["counted"]
    )
    acknowledged = {(number, chunk) for number, chunk, _ in done}
    by_killed = {(line["pass"], line["chunk"]) for line in lines if line["kind"] == "trained" and line["pid"] in killed}
    return TaskCounts(
        tasks=len(tasks),
        once=len(acknowledged & tasks),
        twice=sum(count > 1 for count in done.values()) + len(acknowledged - tasks),
        unwritten=len((tasks - acknowledged) & by_killed),
        again=sum(count > 1 for count in trained.values()),
    )
