"""Data of elastic training: each sample once an epoch whatever the workers, and one point at which all agree."""

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler, TensorDataset, WeightedRandomSampler

import edl.torch as elastic
from edl.torch.cursor import batches, parts, share
from edl.torch.data.order import order_of
from edl.torch.rounds.agreement import Agreement, Offer

pytestmark = pytest.mark.frameworks


@pytest.mark.parametrize("length", [0, 1, 5, 96])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
def test_shares_are_all_of_a_batch_and_nearly_equal(length: int, size: int) -> None:
    found = [share(length, rank, size) for rank in range(size)]
    assert [*itertools.chain.from_iterable(found)] == list(range(length))
    assert max(map(len, found)) - min(map(len, found)) <= 1


@pytest.mark.parametrize("micro", [0, 1, 7, 100])
def test_an_epoch_over_changing_numbers_of_workers_has_each_sample_once(micro: int) -> None:
    order = order_of(RandomSampler(range(1003)), 1003, 7, 3)
    seen: list[int] = []
    for number, size in zip(range(batches(1003, 96, drop_last=False)), itertools.cycle([1, 4, 3, 8, 2]), strict=False):
        taken = [part for rank in range(size) for part in parts(order, number, 96, rank, size, micro)]
        assert sum(part.count for part in taken) == taken[0].whole
        assert sum(part.last for part in taken) == size, "each worker comes to the sum once"
        seen += [index for part in taken for index in part.indices[: part.count]]
    assert sorted(seen) == list(range(1003))


def test_a_worker_without_a_share_computes_something_of_no_weight() -> None:
    (part,) = parts([5, 6], 0, 96, 0, 3)
    assert (part.indices, part.count, part.whole, part.last) == ([5], 0, 2, True)


def test_the_order_depends_on_seed_and_epoch_alone() -> None:
    sampler = RandomSampler(range(50))
    first = order_of(sampler, 50, 1, 0)
    torch.rand(3)
    assert order_of(sampler, 50, 1, 0) == first
    assert order_of(sampler, 50, 1, 1) != first != order_of(sampler, 50, 2, 0)
    assert order_of(SequentialSampler(range(50)), 50, 1, 0) == list(range(50))


def test_a_sampler_of_the_script_is_drawn_from_the_seed_and_nothing_else_is() -> None:
    torch.manual_seed(4)
    expected = torch.rand(1)
    torch.manual_seed(4)
    sampler = WeightedRandomSampler([1.0] * 50, 50)
    first = order_of(sampler, 50, 1, 0)
    assert torch.equal(torch.rand(1), expected), "the script's own random numbers are as if nothing had been"
    assert order_of(sampler, 50, 1, 0) == first


@pytest.mark.parametrize(
    ("offers", "agreement"),
    [
        ([Offer(48), Offer(48)], Agreement(96)),
        ([Offer(48, ahead=1), Offer(48)], Agreement(96)),
        ([Offer(48, ahead=1), Offer(48, ahead=1)], Agreement(96, 1)),
        ([Offer(48, ahead=1), Offer(48, ahead=3)], Agreement(96)),
        ([Offer(32, ahead=2), Offer(32, leaving=True), Offer(32, ahead=2)], Agreement(96, 2)),
        ([Offer(32, ahead=2), Offer(32, leaving=True, ahead=1), Offer(32)], Agreement(96)),
        ([Offer(48, leaving=True), Offer(48, leaving=True)], Agreement(96, 0, ends=True)),
        ([Offer(96, ahead=4)], Agreement(96, 4)),
    ],
)
def test_all_change_after_the_same_step_or_none(offers: list[Offer], agreement: Agreement) -> None:
    sums = [sum(numbers) for numbers in zip(*(offer.numbers() for offer in offers), strict=True)]
    assert Agreement.read(sums, len(offers)) == agreement


def model() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    made = torch.nn.Linear(2, 1)
    return made, torch.optim.SGD(made.parameters(), lr=0.1)


def loader(**options: Any) -> DataLoader[Any]:
    return DataLoader(TensorDataset(torch.zeros(8, 2)), **{"batch_size": 4, **options})


class Stream(torch.utils.data.IterableDataset):  # type: ignore[type-arg,misc,unused-ignore]  # as torch has it
    def __iter__(self) -> Any:
        return iter(())


def wrapped() -> Any:
    made, _ = model()
    return torch.nn.DataParallel(made)


@pytest.mark.parametrize(
    ("given", "fix"),
    [
        (lambda: (wrapped(), model()[1], loader()), "the plain module"),
        (lambda: (SimpleNamespace(), model()[1], loader()), "a torch.nn.Module"),
        (lambda: (model()[0], torch.optim.LBFGS(model()[0].parameters()), loader()), "without a closure"),
        (lambda: (model()[0], SimpleNamespace(), loader()), "a torch.optim.Optimizer"),
        (lambda: (*model(), [1, 2, 3]), "a torch.utils.data.DataLoader"),
        (lambda: (*model(), DataLoader(Stream(), batch_size=2)), "a length and indices"),
        (lambda: (*model(), loader(batch_size=1, batch_sampler=[[0, 1]])), "a sampler"),
    ],
)
def test_what_cannot_be_elastic_is_refused_on_a_laptop_already(given: Any, fix: str) -> None:
    with pytest.raises(elastic.NotElasticError, match=fix):
        elastic.prepare(*given())


def test_outside_of_a_job_every_call_is_the_identity() -> None:
    made, optimizer, data = *model(), loader()
    assert elastic.prepare(made, optimizer, data) == (made, optimizer, data)
    elastic.register("schedule", torch.optim.lr_scheduler.StepLR(optimizer, 1))
    elastic.on_commit(lambda: pytest.fail("nothing is committed"))
    elastic.checkpoint("/nowhere/model.pt", every=1)
    assert list(elastic.epochs(2)) == [0, 1]
    assert elastic.world() == elastic.World(0, 1, 0)
    assert elastic.committed_step() == 0
    assert elastic.process_group() is None
    assert elastic.all_reduce(torch.ones(1))
    with elastic.no_sync():
        made(torch.zeros(1, 2)).sum().backward()
    optimizer.step()
