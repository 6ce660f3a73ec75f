"""Dynamic sharding: every record once per epoch, by seed and epoch alone."""

import numpy as np
import pytest

from edl.runtime.trainer_api.shards import Sharding, Shuffle, permuted


@pytest.mark.parametrize("records", [1, 2, 3, 7, 64, 1000, 65_537])
@pytest.mark.parametrize("seed", [0, 1, 2**40])
def test_a_permutation_has_every_record_once(records: int, seed: int) -> None:
    for epoch in range(3):
        assert sorted(permuted(np.arange(records), records, seed, epoch)) == list(range(records))


def test_another_epoch_or_seed_is_another_order_and_the_same_is_the_same() -> None:
    orders = {
        (seed, epoch): tuple(permuted(np.arange(1000), 1000, seed, epoch)) for seed in range(3) for epoch in range(3)
    }
    assert len(set(orders.values())) == 9
    assert orders[0, 0] == tuple(permuted(np.arange(1000), 1000, 0, 0))
    moved = [abs(there - here) for here, there in enumerate(orders[0, 0])]
    assert 250 < np.mean(moved) < 420, "as far as chance would move them"


@pytest.mark.parametrize("shuffle", ["records", "shards", None])
@pytest.mark.parametrize(("records", "size"), [(100, 10), (101, 10), (5, 10), (1000, 7)])
def test_shards_of_an_epoch_cover_every_record_once(shuffle: Shuffle | None, records: int, size: int) -> None:
    sharding = Sharding(records, size, shuffle, seed=3)
    for epoch in range(2):
        parts = [sharding.of(epoch, number) for number in range(sharding.shards)]
        assert sorted(np.concatenate(parts)) == list(range(records))
        assert max(map(len, parts)) <= size
    if shuffle == "shards":
        assert all((np.diff(part) == 1).all() for part in parts), "read in order"
    if shuffle is None:
        assert list(np.concatenate(parts)) == list(range(records))


def test_a_shard_of_a_billion_records_costs_nothing() -> None:
    sharding = Sharding(10**9, 1000)
    found = sharding.of(5, sharding.shards - 1)
    assert len(set(found.tolist())) == 1000
    assert 0 <= min(found) <= max(found) < 10**9


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="both must be 1 or more"):
        Sharding(0, 10)
    with pytest.raises(ValueError, match="it must be records, shards or None"):
        Sharding(10, 10, "lines")  # type: ignore[arg-type]  # what a script may write
