"""Sharding: everything is on one shard, shards are even, and few things move when shards come and go."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edl.runtime.parameters.model import Dense
from edl.runtime.sharding import BLOCK, dense_ranges, length, overlaps, shards_of_rows, uniform_rows

IDS = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 100_000)


@pytest.mark.parametrize("shards", [1, 2, 3, 8, 30])
def test_rows_are_spread_evenly(shards: int) -> None:
    counts = np.bincount(shards_of_rows(IDS, shards), minlength=shards)
    assert counts.min() > 0.6 * len(IDS) / shards
    assert counts.max() < 1.5 * len(IDS) / shards


@pytest.mark.parametrize("shards", [1, 2, 5, 16])
def test_a_new_shard_only_takes(shards: int) -> None:
    before, after = shards_of_rows(IDS, shards), shards_of_rows(IDS, shards + 1)
    moved = before != after
    assert (after[moved] == shards).all(), "nothing moves between shards that stay"
    assert moved.mean() < 1.6 / (shards + 1)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 40 * BLOCK), st.integers(1, 9))
def test_the_ranges_of_a_tensor_cover_it_once(size: int, shards: int) -> None:
    ranges = sorted(part for mine in dense_ranges(Dense("w", (size,)), shards) for part in mine)
    assert all(start < stop for start, stop in ranges)
    assert [start for start, _ in ranges] == [0, *(stop for _, stop in ranges)][: len(ranges)]
    assert (ranges[-1][1] if ranges else 0) == size


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 6 * BLOCK), st.integers(1, 5), st.integers(1, 5), st.data())
def test_overlaps_carry_a_tensor_from_one_layout_to_another(size: int, old: int, new: int, data: st.DataObject) -> None:
    tensor, flat = Dense("w", (size,)), np.arange(size)
    held = [np.concatenate([flat[a:b] for a, b in mine] or [flat[:0]]) for mine in dense_ranges(tensor, old)]
    shard = data.draw(st.integers(0, new - 1))
    mine = dense_ranges(tensor, new)[shard]
    result = np.full(length(mine), -1)
    for index, theirs in enumerate(dense_ranges(tensor, old)):
        for at_old, at_new, count in overlaps(theirs, mine):
            result[at_new : at_new + count] = held[index][at_old : at_old + count]
    assert np.array_equal(result, np.concatenate([flat[a:b] for a, b in mine] or [flat[:0]]))


def test_start_values_depend_on_seed_and_row_alone() -> None:
    ids = np.arange(1000)
    values = uniform_rows(7, ids, 8)
    assert (uniform_rows(7, ids[500:], 8) == values[500:]).all()
    assert (uniform_rows(8, ids, 8) != values).mean() > 0.99
    assert abs(values.mean()) < 0.02
    assert -1 <= values.min() < -0.99 < 0.99 < values.max() <= 1
