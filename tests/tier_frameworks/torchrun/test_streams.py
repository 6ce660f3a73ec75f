"""Streams in shards that are leased to workers: each sample once in every epoch, whoever comes, goes or fails."""

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

from edl.torch.data.shard_ledger import ShardLedger
from edl.torch.preparation import Options, check
from edl.torch.refusal import NotElasticError
from tests.tier_frameworks.torchrun.peers import Break, Peers, Worker

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(240)]
LENGTHS = [7, 0, 31, 1, 12, 5, 18, 0, 9]


class Stream(IterableDataset):  # type: ignore[type-arg,misc,unused-ignore]  # as torch has it
    """Each sample says which it is, and draws a random number."""

    def __init__(self, lengths: list[int]) -> None:
        self._lengths = lengths

    def shards(self) -> int:
        return len(self._lengths)

    def read(self, shard: int, start: int) -> Iterator[Any]:
        for at in range(start, self._lengths[shard]):
            yield torch.tensor([shard * 1000.0 + at]), random.random()

    def __iter__(self) -> Iterator[Any]:
        return (sample for shard in range(self.shards()) for sample in self.read(shard, 0))


def everything(lengths: list[int]) -> Counter[float]:
    return Counter(shard * 1000.0 + at for shard, length in enumerate(lengths) for at in range(length))


def script(lengths: list[int], epochs: int, batch: int, loaders: int = 0) -> Any:
    """Yields what each step that this worker made was made of, by epoch and step."""

    def run(worker: Worker) -> Any:
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
        data = worker.prepare(model, optimizer, DataLoader(Stream(lengths), batch, num_workers=loaders))
        made: dict[tuple[int, int], list[float]] = {}
        sizes: list[int] = []
        drawn: dict[Any, float] = {}
        for epoch in worker.epochs(epochs):
            for inputs, numbers in data:
                step, count = worker.engine.state.cursor.step, worker.engine._part.count  # type: ignore[union-attr]  # handed out
                optimizer.zero_grad()
                model(inputs).mean().backward()
                optimizer.step()
                if worker.engine.committed:
                    made[epoch, step] = inputs.flatten().tolist()[:count]
                    sizes.append(worker.engine.samples)
                    drawn |= dict(zip([(epoch, one) for one in made[epoch, step]], numbers.tolist(), strict=False))
        return made, sizes, drawn

    return run


def assert_exact(found: list[Any], lengths: list[int], epochs: int) -> None:
    for epoch in range(epochs):
        seen = Counter(one for made, _, _ in found for (at, _), some in made.items() if at == epoch for one in some)
        assert seen == everything(lengths)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_every_sample_is_trained_once_by_any_number_of_workers(size: int) -> None:
    found = Peers(size).run(script(LENGTHS, 2, 12))
    assert_exact(found, LENGTHS, 2)
    for _, sizes, _ in found:
        assert sum(sizes) == 2 * sum(LENGTHS), "each batch counts with its true size"


@pytest.mark.parametrize("at", range(1, 12))
def test_a_batch_that_was_lost_is_read_again_from_the_last_committed_sample(at: int) -> None:
    assert_exact(Peers(3, {1: Break(at), 2: Break(at + 1)}).run(script(LENGTHS, 2, 12)), LENGTHS, 2)


@pytest.mark.parametrize("at", [3, 4, 5, 6, 7, 8])
def test_the_shards_of_a_lost_worker_are_read_by_the_others(at: int) -> None:
    """What the lost one made is known from the others, who made the same steps."""
    seen: list[Any] = []
    ledger = script(LENGTHS, 1, 12)

    def run(worker: Worker) -> Any:
        try:
            return ledger(worker)
        finally:
            seen.append(worker.engine.state.cursor.step)

    found = Peers(3, {1: Break(at, lost=(2,))}).run(run)
    assert len(found) == 2
    sizes = found[0][1]
    assert sum(sizes) == sum(LENGTHS) == sum(found[1][1])


def test_random_numbers_of_a_sample_are_the_same_whoever_reads_it() -> None:
    alone = Peers(1).run(script(LENGTHS, 2, 12))[0][2]
    broken = Peers(1, {1: Break(5)}).run(script(LENGTHS, 2, 5))[0][2]
    assert alone == broken
    assert len(set(alone.values())) == 2 * sum(LENGTHS)


def test_a_process_may_read_ahead() -> None:
    assert_exact(Peers(1, {1: Break(6)}).run(script(LENGTHS, 2, 12, loaders=1)), LENGTHS, 2)


def test_shards_are_leased_in_order_and_the_last_ones_are_spread() -> None:
    ledger = ShardLedger(5)
    ledger.lease(3)
    assert [ledger.leases(rank) for rank in range(3)] == [((0, 0), (3, 0)), ((1, 0), (4, 0)), ((2, 0),)]
    ledger.read([[4, 0, 4], [9, 1, 3], [0, 0, 0]])
    assert ledger.state_dict() == {"begun": 0, "open": {}}, "nothing is committed"
    ledger.commit()
    assert ledger.state_dict() == {"begun": 5, "open": {0: 4, 2: 0, 3: 0, 4: 3}}
    ledger.lease(2)
    assert [ledger.leases(rank) for rank in range(2)] == [((0, 4), (3, 0)), ((2, 0), (4, 3))]


def test_an_evaluation_of_a_stream_trains_nothing() -> None:
    def run(worker: Worker) -> Any:
        model = torch.nn.Linear(1, 1)
        data = worker.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), DataLoader(Stream(LENGTHS), 12))
        worker.engine.join()
        with torch.no_grad():
            seen = [one for inputs, _ in data for one in inputs.flatten().tolist()]
        return seen, worker.engine.state.cursor.step

    found = Peers(2).run(run)
    assert Counter(one for seen, _ in found for one in seen) == everything(LENGTHS)
    assert {step for _, step in found} == {0}


class Endless(IterableDataset):  # type: ignore[type-arg,misc,unused-ignore]  # as torch has it
    def __iter__(self) -> Iterator[Any]:
        return iter(())


@pytest.mark.parametrize(
    ("made", "options", "fix"),
    [
        (lambda: DataLoader(Endless(), 4), Options(), r"give it shards\(\)"),
        (lambda: DataLoader(Stream([1]), 4, drop_last=True), Options(), "leave it out with a stream"),
        (lambda: DataLoader(Stream([1]), 4), Options(micro_batch=2), "leave it out with a stream"),
    ],
)
def test_what_a_stream_cannot_do_is_refused_with_the_fix(made: Any, options: Options, fix: str) -> None:
    model = torch.nn.Linear(1, 1)
    with pytest.raises(NotElasticError, match=fix):
        check([model], [torch.optim.SGD(model.parameters(), lr=0.1)], made(), options)
