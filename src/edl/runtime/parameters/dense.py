"""This shard's part of one dense tensor: a flat vector, the optimiser's vectors beside it, a count of steps."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edl.runtime.parameters.model import Dense, Model
from edl.runtime.parameters.optimize import step
from edl.runtime.sharding import dense_ranges, length, overlaps

Floats = NDArray[np.float32]


@dataclass
class DensePart:
    values: Floats
    slots: list[Floats]
    count: int = 0

    @classmethod
    def empty(cls, model: Model, tensor: Dense, shard: int, shards: int) -> "DensePart":
        size = length(dense_ranges(tensor, shards)[shard])
        return cls(np.zeros(size, np.float32), [np.zeros(size, np.float32) for _ in range(model.optimizer.slots)])

    def apply(self, model: Model, rate: float, grad: Floats) -> None:
        self.count += 1
        step(model.optimizer, rate, self.values, self.slots, grad, self.count)

    def copy(self) -> "DensePart":
        return DensePart(self.values.copy(), [slot.copy() for slot in self.slots], self.count)

    def fill(self, tensor: Dense, here: tuple[int, int], there: tuple[int, int], source: "DensePart") -> None:
        """Copies the overlap of shard `there` (index, of how many) and shard `here` from `source`."""
        old, new = dense_ranges(tensor, there[1])[there[0]], dense_ranges(tensor, here[1])[here[0]]
        pairs = list(zip([self.values, *self.slots], [source.values, *source.slots], strict=True))
        for at_old, at_new, size in overlaps(old, new):
            for mine, theirs in pairs:
                mine[at_new : at_new + size] = theirs[at_old : at_old + size]
        self.count = max(self.count, source.count)

    def arrays(self) -> Iterable[Floats]:
        return [self.values, *self.slots]
