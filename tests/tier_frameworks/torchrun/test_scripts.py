"""What scripts do and `edl.torch` supports: optimizers, samplers, schedules, scaling, accumulation, own collectives.

Each trains with several workers and a group that breaks at the worst moment; the result is that of a plain loop.
"""

import threading
import warnings
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Sampler, TensorDataset

from edl.runtime.torch.lines import JOINS, LINK
from edl.torch.data.order import order_of
from edl.torch.refusal import NotElasticError
from edl.torch.rounds.group import Group, Round
from edl.torch.rounds.members import World
from edl.torch.script_group import ScriptGroup
from tests.tier_frameworks.torchrun.peers import Break, Peers, Worker, loop

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(240)]
SAMPLES, BATCH, SEED = 50, 12, 7


def dataset() -> TensorDataset:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(SAMPLES, 4, generator=generator)
    return TensorDataset(inputs, inputs.sum(dim=1, keepdim=True).sin(), torch.arange(SAMPLES))


def loader(**options: Any) -> DataLoader[Any]:
    return DataLoader(dataset(), **{"batch_size": BATCH, "shuffle": True, **options})


def network(*, norm: bool = False, seed: int = 3) -> torch.nn.Module:
    generator = torch.Generator().manual_seed(seed)
    layers = [torch.nn.Linear(4, 8), *([torch.nn.BatchNorm1d(8)] if norm else []), torch.nn.Linear(8, 1)]
    made = torch.nn.Sequential(*layers)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return made


def loss_of(model: torch.nn.Module, batch: Any) -> torch.Tensor:
    return torch.nn.functional.mse_loss(model(batch[0]), batch[1])


def plain_batches(data: DataLoader[Any], epochs: int) -> list[Any]:
    """As one worker would see them."""
    sets, found = data.dataset, []
    for epoch in range(epochs):
        order = order_of(data.sampler, len(data.sampler), SEED, epoch)
        whole = [indices for indices in loop(order, BATCH) if len(indices) == BATCH or not data.drop_last]
        found += [[torch.stack([sets[at][part] for at in indices]) for part in range(3)] for indices in whole]
    return found


def values(*models: torch.nn.Module) -> list[torch.Tensor]:
    return [value.detach().clone() for model in models for value in model.state_dict().values()]


def assert_same(found: list[list[torch.Tensor]], expected: list[torch.Tensor], tolerance: float = 1e-5) -> None:
    for one in found:
        for mine, theirs in zip(one, expected, strict=True):
            assert torch.allclose(mine.double(), theirs.double(), atol=tolerance), (mine, theirs)


SUMS = [None, Break(3), Break(3, lost=(1,)), Break(3, heard=(0,)), Break(4, heard=(0,), lost=(1,))]
"""How the first round ends: never, or in a sum (two collectives before them hand over the state), which some have."""


@pytest.mark.parametrize("breaks", SUMS)
def test_one_optimizer_and_a_schedule_made_before_it_is_prepared(breaks: Break | None) -> None:
    def parts() -> tuple[Any, Any, Any]:
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)

    def script(worker: Worker) -> Any:
        model, optimizer, schedule = parts()
        data = worker.prepare(model, optimizer, loader())
        worker.register("schedule", schedule)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in worker.epochs(2):
                for batch in data:
                    optimizer.zero_grad()
                    loss_of(model, batch).backward()
                    optimizer.step()
                    schedule.step()
        return values(model), schedule.get_last_lr(), worker.engine.state.cursor.step

    model, optimizer, schedule = parts()
    for batch in plain_batches(loader(), 2):
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        optimizer.step()
        schedule.step()
    found = Peers(3, {1: breaks} if breaks else None).run(script)
    assert len(found) == 3 - len(breaks.lost if breaks else ())
    assert_same([one[0] for one in found], values(model))
    assert {(tuple(one[1]), one[2]) for one in found} == {(tuple(schedule.get_last_lr()), 10)}


def adversaries() -> tuple[Any, ...]:
    first, second = network(seed=1), network(seed=2)
    one = torch.optim.Adam(first.parameters(), lr=0.05)
    two = torch.optim.SGD(second.parameters(), lr=0.1, momentum=0.9)
    return first, second, one, two, torch.optim.lr_scheduler.ExponentialLR(one, 0.8)


def contest(first: Any, second: Any, one: Any, two: Any, slower: Any, batch: Any) -> None:
    """Two passes, two steps: the second loss depends on what the first step did."""
    one.zero_grad()
    loss_of(first, batch).backward()
    one.step()
    slower.step()
    two.zero_grad()
    (second(batch[0]) - first(batch[0]).detach()).pow(2).mean().backward()
    two.step()


@pytest.mark.parametrize("at", [2, 3, 4, 5])
@pytest.mark.parametrize("more", [{}, {"lost": (1,)}, {"heard": (0,)}, {"heard": (0,), "lost": (1,)}])
def test_of_two_optimizers_both_step_or_none(at: int, more: dict[str, Any]) -> None:
    def script(worker: Worker) -> Any:
        first, second, one, two, slower = adversaries()
        data = worker.prepare([first, second], [one, two], loader())
        worker.register("slower", slower)
        for _ in worker.epochs(1):
            for batch in data:
                contest(first, second, one, two, slower, batch)
        return values(first, second), slower.get_last_lr(), worker.engine.state.cursor.step

    made: Any = adversaries()
    for batch in plain_batches(loader(), 1):
        contest(*[*made, batch])
    found = Peers(3, {1: Break(at, **more)}).run(script)
    assert_same([one[0] for one in found], values(made[0], made[1]), 1e-4)
    assert {(tuple(one[1]), one[2]) for one in found} == {(tuple(made[4].get_last_lr()), 5)}


@pytest.mark.parametrize("breaks", SUMS)
def test_two_optimizers_after_one_backward_pass(breaks: Break | None) -> None:
    def parts() -> tuple[Any, ...]:
        model = network()
        halves = [torch.optim.AdamW(layer.parameters(), lr=0.05) for layer in model]
        return model, halves

    def train(model: Any, halves: Any, batch: Any) -> None:
        for half in halves:
            half.zero_grad()
        loss_of(model, batch).backward()
        for half in halves:
            half.step()

    def script(worker: Worker) -> Any:
        model, halves = parts()
        data = worker.prepare(model, halves, loader())
        for _ in worker.epochs(1):
            for batch in data:
                train(model, halves, batch)
        return values(model)

    model, halves = parts()
    for batch in plain_batches(loader(), 1):
        train(model, halves, batch)
    assert_same(Peers(3, {1: breaks} if breaks else None).run(script), values(model), 1e-4)


class EveryOther(Sampler):  # type: ignore[type-arg,misc,unused-ignore]  # as torch has it
    """A script's own. Its generator is its own, too: the workers here are threads and share torch's."""

    def __init__(self) -> None:
        self.generator = torch.Generator()

    def __len__(self) -> int:
        return SAMPLES // 2

    def __iter__(self) -> Any:
        return iter((torch.randperm(SAMPLES // 2, generator=self.generator) * 2).tolist())


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("breaks", SUMS)
def test_a_sampler_of_the_script_and_drop_last(drop_last: bool, breaks: Break | None) -> None:
    def data() -> DataLoader[Any]:
        return loader(sampler=EveryOther(), shuffle=False, drop_last=drop_last)

    def script(worker: Worker) -> Any:
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        made = worker.prepare(model, optimizer, data())
        assert len(made) == (2 if drop_last else 3)
        for _ in worker.epochs(2):
            for batch in made:
                optimizer.zero_grad()
                loss_of(model, batch).backward()
                optimizer.step()
        return values(model)

    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in plain_batches(data(), 2):
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        optimizer.step()
    assert_same(Peers(3, {1: breaks} if breaks else None).run(script), values(model))


def test_a_sampler_that_draws_another_number_than_it_says_is_refused() -> None:
    class Short(EveryOther):
        def __iter__(self) -> Any:
            return iter([1, 2, 3])

    def script(worker: Worker) -> Any:
        model = network()
        made = worker.prepare(
            model, torch.optim.SGD(model.parameters(), lr=0.1), loader(sampler=Short(), shuffle=False)
        )
        return list(made)

    with pytest.raises(ValueError, match="have its __len__ say"):
        Peers(1).run(script)


@pytest.mark.parametrize("breaks", [None, Break(3), Break(3, heard=(0,))])
def test_running_means_are_those_of_all_workers_and_of_steps_that_happened(breaks: Break | None) -> None:
    def script(worker: Worker) -> Any:
        model = network(norm=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        data = worker.prepare(model, optimizer, loader(drop_last=True))
        for _ in worker.epochs(1):
            for batch in data:
                optimizer.zero_grad()
                loss_of(model, batch).backward()
                optimizer.step()
        return values(model)

    model = network(norm=True)
    for batch in plain_batches(loader(drop_last=True), 1):
        model(batch[0])
    found = Peers(2, {1: breaks} if breaks else None).run(script)
    assert_same(found[1:], found[0], 0.0)
    mean = model[1].running_mean
    assert torch.allclose(found[0][4], mean, atol=1e-5), "shares are even, so the mean of means is the mean"


@pytest.mark.parametrize("breaks", SUMS)
@pytest.mark.parametrize("optimizers", [1, 2])
def test_a_step_that_the_scaler_skips_commits_the_cursor(breaks: Break | None, optimizers: int) -> None:
    def script(worker: Worker) -> Any:
        model = network()
        made = [torch.optim.SGD(layer.parameters(), lr=0.1) for layer in model]
        if optimizers == 1:
            made = [torch.optim.SGD(model.parameters(), lr=0.1)]
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=1000)
        data = worker.prepare(model, made, loader())
        worker.register("scaler", scaler)
        seen: Counter[int] = Counter()
        before = values(model)
        skipped = False
        for _ in worker.epochs(1):
            for batch in data:
                for optimizer in made:
                    optimizer.zero_grad()
                step = worker.engine.state.cursor.step
                loss = loss_of(model, batch) * (float("inf") if step == 2 else 1.0)
                before = values(model)
                scaler.scale(loss).backward()
                for optimizer in made:
                    scaler.step(optimizer)
                scaler.update()
                if worker.engine.committed:
                    seen.update(batch[2].tolist())
                if step == 2 and worker.engine.state.cursor.step == 3:
                    skipped = True
                    assert_same([values(model)], before, 0.0)
        return values(model), scaler.get_scale(), worker.engine.state.cursor.step, skipped

    found = Peers(2, {1: breaks} if breaks else None).run(script)
    assert {one[1:] for one in found} == {(512.0, 5, True)}
    assert_same([one[0] for one in found], found[0][0], 0.0)


@pytest.mark.parametrize("breaks", SUMS)
def test_gradients_accumulate_over_batches_without_a_sum(breaks: Break | None) -> None:
    def train(model: Any, optimizer: Any, at: int, batch: Any, quiet: Callable[[], Any] | None = None) -> None:
        if at % 2 == 0:
            optimizer.zero_grad()
            if quiet is not None:
                with quiet():
                    (loss_of(model, batch) / 2).backward()
            else:
                (loss_of(model, batch) / 2).backward()
            return
        (loss_of(model, batch) / 2).backward()
        optimizer.step()

    def script(worker: Worker) -> Any:
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        data = worker.prepare(model, optimizer, loader(drop_last=True))
        for _ in worker.epochs(2):
            for batch in data:
                at = worker.engine._part.batch  # type: ignore[union-attr]  # where a script would count itself
                train(model, optimizer, at, batch, worker.engine.reducer.paused)
        return values(model), worker.engine.state.cursor.step

    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for at, batch in enumerate(plain_batches(loader(drop_last=True), 2)):
        train(model, optimizer, at % 4, batch)
    found = Peers(2, {1: breaks} if breaks else None).run(script)
    assert_same([one[0] for one in found], values(model))
    assert {one[1] for one in found} == {4}


def test_an_evaluation_sees_every_sample_once_and_commits_nothing() -> None:
    def script(worker: Worker) -> Any:
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        data = worker.prepare(model, optimizer, loader())
        evaluated: list[list[int]] = []
        for _ in worker.epochs(2):
            for batch in data:
                optimizer.zero_grad()
                loss_of(model, batch).backward()
                optimizer.step()
            cursor = worker.engine.state.cursor
            before = cursor.state()
            with torch.no_grad():
                evaluated.append([index for batch in data for index in batch[2].tolist()])
            assert cursor.state() == before
        return values(model), evaluated, worker.engine.state.cursor.step

    found = Peers(3).run(script)
    for turn in range(2):
        assert sorted(index for one in found for index in one[1][turn]) == list(range(SAMPLES))
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in plain_batches(loader(), 2):
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        optimizer.step()
    assert_same([one[0] for one in found], values(model))


@pytest.mark.parametrize("at", [2, 3, 4, 5])
@pytest.mark.parametrize("more", [{}, {"lost": (1,)}, {"heard": (0,)}])
@pytest.mark.parametrize("after", [False, True])
def test_a_sum_of_the_script_that_fails_has_the_step_made_again(at: int, more: dict[str, Any], after: bool) -> None:
    """Before the step or after it."""

    def script(worker: Worker) -> Any:
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        data = worker.prepare(model, optimizer, loader())
        counts: dict[int, float] = {}
        for _ in worker.epochs(1):
            for batch in data:
                step = worker.engine.state.cursor.step
                count = torch.tensor([float(len(batch[2]))])
                if not after:
                    summed = worker.engine.all_reduce(count)
                optimizer.zero_grad()
                loss_of(model, batch).backward()
                optimizer.step()
                if after:
                    summed = worker.engine.all_reduce(count)
                if summed and worker.engine.committed:
                    counts[step] = float(count)
        return values(model), counts, worker.engine.state.cursor.step

    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in plain_batches(loader(), 1):
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        optimizer.step()
    found = Peers(3, {1: Break(at, **more)}).run(script)
    assert_same([one[0] for one in found], values(model))
    for _, counts, steps in found:
        assert steps == 5
        expected = {0: 12.0, 1: 12.0, 2: 12.0, 3: 12.0}
        assert {step: count for step, count in counts.items() if step < 4} == {
            step: count for step, count in expected.items() if step in counts
        }
        assert len(counts) >= 4, "one may have received a step that others made"


@pytest.mark.parametrize("at", [3, 4, 5, 6, 7])
@pytest.mark.parametrize("more", [{}, {"lost": (1,)}, {"heard": (0,)}])
def test_a_raw_collective_that_fails_has_the_step_made_again(at: int, more: dict[str, Any]) -> None:
    """Of torch.distributed, before and after the sum of the gradients."""

    def script(worker: Worker) -> Any:
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        data = worker.prepare(model, optimizer, loader())
        group = ScriptGroup(worker.engine)
        for _ in worker.epochs(1):
            for batch in data:
                before = torch.full((2,), 1.0 + group.rank())
                dist.broadcast(before, group_src=0, group=group)
                optimizer.zero_grad()
                loss_of(model, batch).backward()
                optimizer.step()
                count = torch.tensor([float(len(batch[2]))])
                dist.all_reduce(count, group=group)
                dist.barrier(group=group)
                if worker.engine.committed and not worker.engine.broken:
                    assert before.tolist() == [1.0, 1.0]
                    assert float(count) in (12.0, 3.0, 2.0)
        return values(model), worker.engine.state.cursor.step

    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in plain_batches(loader(), 1):
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        optimizer.step()
    found = Peers(3, {1: Break(at, **more)}).run(script)
    assert_same([one[0] for one in found], values(model))
    assert {one[1] for one in found} == {5}


def test_raw_collectives_run_on_gloo() -> None:
    """Two workers as threads, with a group as it is in a job."""
    store, failures = dist.HashStore(), []

    def work(rank: int) -> None:
        try:
            gloo = dist.ProcessGroupGloo(store, rank, 2, timedelta(seconds=60))
            made = Group(Round(1, ("a", "b"), rank, 2, ""), gloo, {})
            engine: Any = SimpleNamespace(together=lambda act: act(made) or True, world=World(rank, 2, 1))
            group = ScriptGroup(engine)
            tensor = torch.tensor([rank + 1.0])
            dist.all_reduce(tensor, group=group)
            assert tensor.tolist() == [3.0]
            dist.all_reduce(tensor, op=dist.ReduceOp.MAX, group=group, async_op=True).wait()
            assert tensor.tolist() == [3.0]
            other = torch.tensor([float(rank)])
            dist.broadcast(other, group_src=1, group=group)
            assert other.tolist() == [1.0]
            every = [torch.zeros(1) for _ in range(2)]
            dist.all_gather(every, torch.tensor([float(rank)]), group=group)
            assert [one.tolist() for one in every] == [[0.0], [1.0]]
            dist.barrier(group=group)
            assert (group.rank(), group.size()) == (rank, 2)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == []


def test_more_workers_than_samples_of_a_batch_are_refused_at_the_start_and_idle_later() -> None:
    def script(worker: Worker) -> Any:
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        data = worker.prepare(model, optimizer, loader(batch_size=2))
        for _ in worker.epochs(1):
            for batch in data:
                optimizer.zero_grad()
                loss_of(model, batch).backward()
                optimizer.step()
        return values(model)

    in_a_job = {LINK: "name:token", "WORLD_SIZE": "3"}
    with pytest.raises(NotElasticError, match="raise it to 3 at least, or lower the job's maxReplicas"):
        Peers(3, env=in_a_job).run(script)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = dataset()
    for indices in loop(order_of(loader().sampler, SAMPLES, SEED, 0), 2):
        optimizer.zero_grad()
        loss_of(model, [torch.stack([data[at][part] for at in indices]) for part in range(2)]).backward()
        optimizer.step()
    assert_same(Peers(3, env={**in_a_job, JOINS: "1"}).run(script), values(model))
