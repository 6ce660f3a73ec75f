"""This shard's rows of one sparse table. A row is created when it is first pulled or pushed."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from edl.runtime.parameters.model import Model, Rows
from edl.runtime.parameters.optimize import step
from edl.runtime.sharding import uniform_rows

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]
Scalar = TypeVar("Scalar", bound=np.generic)


class RowTable:
    def __init__(self, model: Model, table: Rows) -> None:
        self._model, self._table = model, table
        self._place: dict[int, int] = {}  # row number -> place in the arrays
        self._ids: Ids = np.zeros(0, np.int64)
        self._counts: NDArray[np.int32] = np.zeros(0, np.int32)
        self._arrays: list[Floats] = [np.zeros((0, table.width), np.float32) for _ in range(1 + model.optimizer.slots)]

    def __len__(self) -> int:
        return len(self._place)

    def pull(self, ids: Ids) -> Floats:
        places = self._places(ids)  # first: it may grow the arrays
        return self._arrays[0][places]

    def apply(self, rate: float, ids: Ids, grads: Floats) -> None:
        """`ids` must be distinct (`sum_by_row`)."""
        places = self._places(ids)
        self._counts[places] += 1
        values, *slots = [array[places] for array in self._arrays]
        step(self._model.optimizer, rate, values, slots, grads, self._counts[places][:, None])
        for array, changed in zip(self._arrays, [values, *slots], strict=True):
            array[places] = changed

    def contents(self) -> tuple[Ids, NDArray[np.int32], list[Floats]]:
        """Copies of row numbers, their counts of steps, values and optimiser state."""
        size = len(self._place)
        return self._ids[:size].copy(), self._counts[:size].copy(), [array[:size].copy() for array in self._arrays]

    def add(self, ids: Ids, counts: NDArray[np.int32], arrays: list[Floats]) -> None:
        """Adds rows of a checkpoint."""
        places = self._places(ids)
        self._counts[places] = counts
        for mine, theirs in zip(self._arrays, arrays, strict=True):
            mine[places] = theirs

    def _places(self, ids: Ids) -> NDArray[np.intp]:
        place = self._place
        numbers = ids.tolist()
        fresh = [number for number in dict.fromkeys(numbers) if number not in place]
        if fresh:
            self._create(np.array(fresh, np.int64))
        return np.fromiter(map(place.__getitem__, numbers), np.intp, len(numbers))

    def _create(self, ids: Ids) -> None:
        start, stop = len(self._place), len(self._place) + len(ids)
        self._reserve(stop)
        self._place.update(zip(ids.tolist(), range(start, stop), strict=True))
        self._ids[start:stop] = ids
        self._arrays[0][start:stop] = uniform_rows(self._table.seed, ids, self._table.width) * np.float32(
            self._table.scale
        )

    def _reserve(self, size: int) -> None:
        if size <= len(self._ids):
            return
        capacity = max(size, 2 * len(self._ids), 1024)
        self._ids = _grown(self._ids, capacity)
        self._counts = _grown(self._counts, capacity)
        self._arrays = [_grown(array, capacity) for array in self._arrays]


def sum_by_row(ids: Ids, grads: Floats) -> tuple[Ids, Floats]:
    """One gradient per distinct row: the sum of all given for it."""
    distinct, places = np.unique(ids, return_inverse=True)
    total = np.zeros((len(distinct), grads.shape[1]), np.float32)
    np.add.at(total, places, grads)
    return distinct, total


def _grown(array: NDArray[Scalar], capacity: int) -> NDArray[Scalar]:
    bigger = np.zeros((capacity, *array.shape[1:]), array.dtype)
    bigger[: len(array)] = array
    return bigger
