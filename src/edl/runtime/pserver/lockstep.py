"""Synchronous training: what several trainers push for one step is averaged and applied once.

A round is complete when every trainer that takes part has pushed. Trainers join and leave at any moment; a round that
waited only for one that left is complete then. Shards see a join or leave at slightly different moments, so that around
one a round may be split in two on some shards; between them, all shards do the same.
"""

import numpy as np

from .shard import Floats, Grads, Ids

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

    def add(self, trainer: int, key: Key, grads: Grads, rate: float | None) -> None:
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

    def mean(self) -> Grads:
        scale = np.float32(1.0 / self._pushes)
        for grad in self._dense.values():
            grad *= scale
        return self._dense, [(name, *_summed(parts, scale)) for name, parts in self._rows.items()]


def _summed(parts: list[tuple[Ids, Floats]], scale: np.float32) -> tuple[Ids, Floats]:
    """One gradient per row, though several trainers may have pushed one for it."""
    ids, places = np.unique(np.concatenate([ids for ids, _ in parts]), return_inverse=True)
    grads = np.concatenate([grad for _, grad in parts])
    total = np.zeros((len(ids), grads.shape[1]), np.float32)
    np.add.at(total, places, grads)
    total *= scale
    return ids, total
