"""Dynamic data sharding: computes the records of a shard and their order.

An epoch is a permutation of all records that is computed, not stored: a Feistel network over record numbers, keyed by
seed and epoch, with cycle walking. Any worker knows the records of any shard without communication, a billion records
take no memory, and every run with the same seed sees the same order.
"""

import hashlib
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from edl.runtime.trainer_api.task import Task

Shuffle = Literal["records", "shards"]
Ids = NDArray[np.int64]
ROUNDS = 4


@dataclass(frozen=True)
class Sharding:
    """The division of a data set into shards."""

    records: int
    size: int
    shuffle: Shuffle | None = "records"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.records < 1 or self.size < 1:
            raise ValueError(f"{self.records} records in shards of {self.size}: both must be 1 or more")
        if self.shuffle is not None and self.shuffle not in get_args(Shuffle):
            raise ValueError(f"shuffle is {self.shuffle!r}, it must be records, shards or None")

    @property
    def shards(self) -> int:
        return -(-self.records // self.size)

    def of(self, epoch: int, number: int) -> Ids:
        """The records of shard `number` of an epoch, in training order."""
        if self.shuffle == "shards":
            number = int(permuted(np.array([number]), self.shards, self.seed, epoch)[0])
        places = np.arange(number * self.size, min((number + 1) * self.size, self.records), dtype=np.int64)
        return permuted(places, self.records, self.seed, epoch) if self.shuffle == "records" else places


@dataclass(frozen=True)
class Shard:
    """One leased shard. `task.void` says that it was revoked."""

    task: Task
    sharding: Sharding

    @property
    def epoch(self) -> int:
        return self.task.pass_index

    @property
    def number(self) -> int:
        return self.task.chunk

    @property
    def records(self) -> Ids:
        return self.sharding.of(self.epoch, self.number)

    def batches(self, size: int) -> list[Ids]:
        """The records in batches; the last one may be smaller."""
        records = self.records
        return [records[start : start + size] for start in range(0, len(records), size)]


def permuted(places: Ids, size: int, seed: int, epoch: int) -> Ids:
    """The images of these places of 0..size-1 in the permutation of this seed and epoch."""
    half = max(1, ((size - 1).bit_length() + 1) // 2)
    keys = _keys(seed, epoch)
    found = _feistel(places.astype(np.uint64), half, keys)
    while (outside := found >= size).any():  # at most four times as many numbers as records: few walks
        found[outside] = _feistel(found[outside], half, keys)
    return found.astype(np.int64)


def _feistel(values: NDArray[np.uint64], half: int, keys: list[np.uint64]) -> NDArray[np.uint64]:
    mask, shift = np.uint64((1 << half) - 1), np.uint64(half)
    left, right = values >> shift, values & mask
    for key in keys:
        left, right = right, left ^ (_mix(right, key) & mask)
    return (left << shift) | right


def _mix(values: NDArray[np.uint64], key: np.uint64) -> NDArray[np.uint64]:
    """Overflow of the multiplications is intended: it mixes the bits."""
    with np.errstate(over="ignore"):
        mixed = (values + key) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
        mixed = mixed * np.uint64(0xBF58476D1CE4E5B9)
        return mixed ^ (mixed >> np.uint64(32))


def _keys(seed: int, epoch: int) -> list[np.uint64]:
    digest = hashlib.blake2b(f"{seed} {epoch}".encode(), digest_size=8 * ROUNDS).digest()
    return [np.uint64(int.from_bytes(digest[at : at + 8], "little")) for at in range(0, len(digest), 8)]
