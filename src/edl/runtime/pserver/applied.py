"""Which pushes this shard has applied, so that one which arrives twice counts once.

A push is step s of task (pass, chunk). Whoever trains a task pushes its steps 0, 1, 2...: if a trainer is lost in the
middle and another one starts the task anew, the steps that had arrived are skipped. The table is saved with the
parameters, so that the two never disagree.
"""

import numpy as np
from numpy.typing import NDArray

PASSES = 2  # that are remembered; a push of an older one is from a trainer that everybody has given up


class OutOfOrderError(Exception):
    """A step before this one never arrived."""


class Applied:
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

    def merged(self, other: "Applied") -> "Applied":
        """What both shards have applied: when shards are cut anew, what only one had counts as not applied."""
        both = {}
        for index in self._steps.keys() & other._steps.keys():
            mine, theirs = self._steps[index], other._steps[index]
            size = min(len(mine), len(theirs))
            both[index] = np.minimum(mine[:size], theirs[:size])
        return Applied(both)

    def _count(self, pass_index: int, chunk: int) -> int:
        counts = self._steps.get(pass_index)
        return int(counts[chunk]) if counts is not None and chunk < len(counts) else 0

    def _forget(self, pass_index: int) -> None:
        for old in [index for index in self._steps if index <= pass_index]:
            del self._steps[old]
