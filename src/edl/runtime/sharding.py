"""Assignment of tensor blocks and rows to shards, computed alike by trainers and servers from the number of shards.

Names and numbers hash into 1024 buckets; jump consistent hashing assigns buckets to shards, so that adding or removing
shards moves only what must move.
"""

import zlib
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from edl.runtime.parameters.model import Dense

BUCKETS = 1024
BLOCK = 1 << 16  # elements of a dense tensor that stay together

Range = tuple[int, int]


@lru_cache(maxsize=64)
def shard_of_bucket(shards: int) -> NDArray[np.uint16]:
    return np.array([_jump(_mix(np.array([bucket], np.uint64))[0], shards) for bucket in range(BUCKETS)], np.uint16)


def shards_of_rows(ids: NDArray[np.int64], shards: int) -> NDArray[np.uint16]:
    if shards == 1:
        return np.zeros(len(ids), np.uint16)
    buckets = _mix(ids.view(np.uint64)) % np.uint64(BUCKETS)
    return np.take(shard_of_bucket(shards), buckets.astype(np.intp))


@lru_cache(maxsize=4096)
def dense_ranges(tensor: Dense, shards: int) -> tuple[tuple[Range, ...], ...]:
    """Per shard its ranges start..stop of the flattened tensor, in order, neighbours joined."""
    table = shard_of_bucket(shards)
    ranges: list[list[Range]] = [[] for _ in range(shards)]
    for block, start in enumerate(range(0, tensor.size, BLOCK)):
        shard = int(table[zlib.crc32(f"{tensor.name}:{block}".encode()) % BUCKETS])
        stop = min(start + BLOCK, tensor.size)
        mine = ranges[shard]
        if mine and mine[-1][1] == start:
            mine[-1] = (mine[-1][0], stop)
        else:
            mine.append((start, stop))
    return tuple(tuple(mine) for mine in ranges)


def length(ranges: tuple[Range, ...]) -> int:
    return sum(stop - start for start, stop in ranges)


def overlaps(old: tuple[Range, ...], new: tuple[Range, ...]) -> Iterator[tuple[int, int, int]]:
    """(offset in the old vector, offset in the new one, length) of every common part."""
    i = j = at_old = at_new = 0
    while i < len(old) and j < len(new):
        (a, b), (c, d) = old[i], new[j]
        start, stop = max(a, c), min(b, d)
        if start < stop:
            yield at_old + start - a, at_new + start - c, stop - start
        if b <= d:
            i, at_old = i + 1, at_old + b - a
        if d <= b:
            j, at_new = j + 1, at_new + d - c


def uniform_rows(seed: int, ids: NDArray[np.int64], width: int) -> NDArray[np.float32]:
    """Uniform numbers in -1..1 from seed, row number and column alone."""
    with np.errstate(over="ignore"):
        columns = np.arange(width, dtype=np.uint64)[None, :]
        keys = _mix(ids.view(np.uint64) + np.uint64(seed))[:, None] + columns
    unit = (_mix(keys) >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-23)
    return unit - np.float32(1.0)


def _mix(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finaliser of splitmix64: every bit of the key reaches every bit of the result."""
    with np.errstate(over="ignore"):
        mixed = keys + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(31))


def _jump(key: np.uint64, shards: int) -> int:
    """Jump consistent hashing (Lamping, Veach): with shard n+1 one key in n+1 moves, and it moves to the new shard."""
    state, last, candidate = int(key), -1, 0
    while candidate < shards:
        last = candidate
        state = (state * 2862933555777941757 + 1) % (1 << 64)
        candidate = int((last + 1) * ((1 << 31) / ((state >> 33) + 1)))
    return last
