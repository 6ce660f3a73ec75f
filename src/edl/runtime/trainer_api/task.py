"""One task of the training loop: a chunk of the data in one pass."""

from dataclasses import dataclass, field
from typing import Any

from edl.runtime.tasks.messages import LeasedTask


@dataclass(eq=False)
class Task:
    """`void`: the task was revoked (its lease expired, or the parameters were restored to an earlier checkpoint). The
    body may run to its end; its pushes are not used, and another trainer repeats the task."""

    pass_index: int
    chunk: int
    chunks: int
    passes: int
    era: int
    lease: int
    void: bool = False
    step: int = 0
    failure: str = ""
    position: int | None = None  # in the queue, if that has a share of the chunks only
    notes: dict[str, Any] = field(default_factory=dict)  # for the script's own use

    def part(self, size: int) -> slice:
        """This task's share of `size` samples; the shares of all chunks are disjoint and cover everything."""
        return slice(size * self.chunk // self.chunks, size * (self.chunk + 1) // self.chunks)

    def fail(self, reason: str) -> None:
        """Gives the task up for another trainer to try; after three failures of one chunk the job fails."""
        self.failure = reason or "no reason given"

    @property
    def leased_task(self) -> LeasedTask:
        leased = self.chunk if self.position is None else self.position
        return LeasedTask(self.lease, self.era, self.pass_index, leased)
