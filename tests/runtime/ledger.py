"""Checks the ledger of a counting job, whatever was killed meanwhile.

An acknowledgement of era e for checkpoint c is undone by a rollback to a checkpoint before c that began a later era.
What remains is at most one per task of every pass. It is missing only where the trainer that did the task was killed
before it could write the line. The parameters are exact in any case: no update is lost and none counts twice.
"""

from collections import Counter
from collections.abc import Collection
from typing import Any

from tests.runtime.harness import Job

Task = tuple[int, int]


def check_trained_once(job: Job, *, passes: int, chunks: int) -> None:
    """Where no trainer was killed and no parameter was lost, nobody even begins a task that another has."""
    trained = Counter((line["pass"], line["chunk"]) for line in job.lines("trained"))
    assert trained == dict.fromkeys(((index, chunk) for index in range(passes) for chunk in range(chunks)), 1)


def surviving(lines: list[dict[str, Any]], rollbacks: list[tuple[int, int]]) -> Counter[Task]:
    kept: Counter[Task] = Counter()
    for line in lines:
        undone = any(era > line["era"] and restored < line["checkpoint"] for era, restored in rollbacks)
        if line["counted"] and not undone:
            kept[line["pass"], line["chunk"]] += 1
    return kept


def check(job: Job, *, passes: int, chunks: int, steps: int = 2, killed: Collection[int] = ()) -> None:
    """`killed` are the process ids of trainers that could not finish their lines."""
    tasks = {(index, chunk) for index in range(passes) for chunk in range(chunks)}
    kept = surviving(job.lines("acknowledged"), job.stat().rollbacks)
    assert set(kept) <= tasks
    assert {task: count for task, count in kept.items() if count > 1} == {}, "done twice"
    trained_by_killed = {(line["pass"], line["chunk"]) for line in job.lines("trained") if line["pid"] in killed}
    assert tasks - set(kept) <= trained_by_killed, "never acknowledged, and nobody was killed over it"
    ends = job.lines("end")
    assert ends, "no trainer saw the end"
    for end in ends:
        if "total" in end:
            assert end["total"] == [passes * chunks * steps] * 3, "updates were lost or counted twice"
            assert end["rows"] == [passes] * chunks
