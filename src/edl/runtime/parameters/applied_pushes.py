"""The pushes that a shard has applied, so that a repeated push is applied once.

A push is step s of task (pass, chunk). The trainer of a task pushes its steps 0, 1, 2...: if it is lost and another one
restarts the task, the steps that had arrived are skipped. The table is saved with the parameters, so that the two never
disagree.
"""

import numpy as np
from numpy.typing import NDArray

PASSES = 2  # remembered; a push of an older pass is from a trainer that counts as lost


class OutOfOrderError(Exception):
    """A step before this one never arrived."""


class AppliedPushes:
    def __init__(self, steps: dict[int, NDArray[np.int32]] | None = None) -> None:
        self._steps = steps or {}  # per pass, how many steps of each chunk were applied

    def duplicate(self, pass_index: int, chunk: int, step: int) -> bool:
        applied = self._count(pass_index, chunk)
        if pass_index <= max(self._steps, default=0) - PASSES or step < applied:
            return True
        if step > applied:
            raise OutOfOrderError(f"step {step} of chunk {chunk} came before step {applied}")
        return False

    def mark(self, pass_index: int, chunk: int) -> None:
        counts = self._steps.get(pass_index)
        if counts is None or chunk >= len(counts):
            grown = np.zeros(max(64, 2 * (chunk + 1)), np.int32)
            if counts is not None:
                grown[: len(counts)] = counts
            self._steps[pass_index] = counts = grown
            self._forget(max(self._steps) - PASSES)
        counts[chunk] += 1

    def arrays(self) -> dict[int, NDArray[np.int32]]:
        return {index: counts.copy() for index, counts in self._steps.items()}

    def merged(self, other: "AppliedPushes") -> "AppliedPushes":
        """The pushes that both have applied: after resharding, a push that only one had counts as not applied."""
        both = {}
        for index in self._steps.keys() & other._steps.keys():
            mine, theirs = self._steps[index], other._steps[index]
            size = min(len(mine), len(theirs))
            both[index] = np.minimum(mine[:size], theirs[:size])
        return AppliedPushes(both)

    def _count(self, pass_index: int, chunk: int) -> int:
        counts = self._steps.get(pass_index)
        return int(counts[chunk]) if counts is not None and chunk < len(counts) else 0

    def _forget(self, pass_index: int) -> None:
        for old in [index for index in self._steps if index <= pass_index]:
            del self._steps[old]
