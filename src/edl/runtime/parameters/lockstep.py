"""Synchronous training: averages the pushes of all trainers for one step and applies them once.

A round is complete when every joined trainer has pushed. Trainers join and leave at any moment; a round that waited
only for a leaver is complete then. Shards see a join or leave at slightly different moments, so a round may then be
split in two on some shards; otherwise all shards do the same.
"""

import numpy as np

from edl.runtime.parameters.rows import sum_by_row
from edl.runtime.parameters.shard import Floats, Gradients, Ids

Key = tuple[int, int, int]  # pass, chunk, step


class Round:
    def __init__(self) -> None:
        self.applied = False
        self.rate: float | None = None
        self.keys: set[Key] = set()
        self._trainers: set[int] = set()
        self._pushes = 0
        self._dense: dict[str, Floats] = {}
        self._rows: dict[str, list[tuple[Ids, Floats]]] = {}

    def add(self, trainer: int, key: Key, grads: Gradients, rate: float | None) -> None:
        self._trainers.add(trainer)
        self._pushes += 1
        self.keys.add(key)
        self.rate = rate
        dense, rows = grads
        for name, grad in dense.items():
            if name in self._dense:
                self._dense[name] += grad
            else:
                self._dense[name] = grad.copy()
        for name, ids, grad in rows:
            self._rows.setdefault(name, []).append((ids.copy(), grad.copy()))

    def complete(self, members: set[int]) -> bool:
        return bool(self.keys) and self._trainers >= members

    def mean(self) -> Gradients:
        scale = np.float32(1.0 / self._pushes)
        for grad in self._dense.values():
            grad *= scale
        return self._dense, [(name, *_summed(parts, scale)) for name, parts in self._rows.items()]


def _summed(parts: list[tuple[Ids, Floats]], scale: np.float32) -> tuple[Ids, Floats]:
    """One scaled gradient per row, though several trainers may have pushed one for it."""
    ids, total = sum_by_row(np.concatenate([ids for ids, _ in parts]), np.concatenate([grad for _, grad in parts]))
    total *= scale
    return ids, total
