"""One task as the training loop sees it: a chunk of the data in one pass."""

from dataclasses import dataclass, field
from typing import Any

from ..master.messages import Holding


@dataclass(eq=False)
class Task:
    """`void`: the task was taken away (its lease ran out, or the parameters were restored to an earlier moment). The
    body may run to its end; what it pushes is not used, and somebody does the task again."""

    pass_index: int
    chunk: int
    chunks: int
    passes: int
    era: int
    lease: int
    void: bool = False
    step: int = 0
    failure: str = ""
    notes: dict[str, Any] = field(default_factory=dict)  # for the script's own use

    def part(self, size: int) -> slice:
        """This task's share of `size` samples; the shares of all chunks are disjoint and cover everything."""
        return slice(size * self.chunk // self.chunks, size * (self.chunk + 1) // self.chunks)

    def fail(self, reason: str) -> None:
        """Gives the task up for somebody else to try; after three failures of one chunk the job fails."""
        self.failure = reason or "no reason given"

    @property
    def holding(self) -> Holding:
        return Holding(self.lease, self.era, self.pass_index, self.chunk)
