"""Streams in shards: what an IterableDataset offers so that workers can share it, and how one worker reads its part.

    class Lines(IterableDataset):
        def shards(self) -> int: ...  # how many
        def read(self, shard: int, start: int) -> Iterator: ...  # samples of one, from a position on

Reading a shard twice yields the same samples in the same order.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch.utils.data import Dataset

from edl.torch.data.random_numbers import own_random_numbers, seed_of

Lease = tuple[int, int]
"""A shard, and from which of its samples on."""


def has_shards(dataset: Any) -> bool:
    return callable(getattr(dataset, "shards", None)) and callable(getattr(dataset, "read", None))


@dataclass(frozen=True)
class Request:
    """The next `count` samples of these leases, as far as they were not read before. Another `turn` begins anew."""

    turn: int
    seed: int
    epoch: int
    leases: Sequence[Lease]
    count: int


@dataclass(frozen=True)
class Reading:
    """`count` samples, collated; there is one even if the count is 0, for a model cannot compute on nothing.

    `ended`: leases that came to their end meanwhile. `offset`: the position in the one after them."""

    data: Any
    count: int
    ended: int
    offset: int


class ShardReader(Dataset):  # type: ignore[type-arg,misc,unused-ignore]  # torch may not be installed where types are checked
    """Answers requests, in the worker's process or in another."""

    def __init__(self, dataset: Any, collate: Callable[[list[Any]], Any]) -> None:
        self._dataset, self._collate = dataset, collate
        self._turn = self._at = self._offset = 0
        self._samples: Iterator[Any] | None = None
        self._spare: list[Any] = []

    def __getitem__(self, request: Request) -> Reading:
        if request.turn != self._turn:
            self._turn, self._at, self._samples = request.turn, 0, None
        first = self._at
        found: list[Any] = []
        with own_random_numbers() as set_seed:
            while len(found) < request.count and self._at < len(request.leases):
                found += self._some(request, request.count - len(found), set_seed)
        self._spare = found[:1] or self._spare or self._any()
        return Reading(self._collate(found or self._spare), len(found), self._at - first, self._position(request))

    def _some(self, request: Request, count: int, set_seed: Callable[[int], None]) -> list[Any]:
        """Of the present lease; when it has no more, the next one is the present."""
        shard, start = request.leases[self._at]
        if self._samples is None:
            self._samples, self._offset = iter(self._dataset.read(shard, start)), start
        found: list[Any] = []
        while len(found) < count:
            set_seed(seed_of(request.seed, request.epoch, shard, self._offset))
            try:
                found.append(next(self._samples))
            except StopIteration:
                self._at, self._samples = self._at + 1, None
                break
            self._offset += 1
        return found

    def _position(self, request: Request) -> int:
        if self._samples is not None:
            return self._offset
        return request.leases[self._at][1] if self._at < len(request.leases) else 0

    def _any(self) -> list[Any]:
        for shard in range(self._dataset.shards()):
            for sample in self._dataset.read(shard, 0):
                return [sample]
        raise ValueError("no shard of the data set has a sample")
