"""A batch that grows with the workers, what the learning rate makes of it, and what is reported of it."""

import math
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

from edl.torch.data.sample_seeds import SeededSamples
from edl.torch.preparation import Options, check
from edl.torch.refusal import NotElasticError
from edl.torch.scaling.batch_rule import BatchRule, ramped
from edl.torch.scaling.learning_rate import scaled
from edl.torch.scaling.noise_scale import NoiseScale
from edl.torch.scaling.pace import Pace
from edl.torch.scaling.reports import figures
from tests.tier_frameworks.torchrun.group import until
from tests.tier_frameworks.torchrun.peers import Break, Peers, Worker

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(240)]


@pytest.mark.parametrize(
    ("rule", "workers", "batch"),
    [
        (BatchRule(), 5, 96),
        (BatchRule(base=2), 1, 96),
        (BatchRule(base=2), 2, 96),
        (BatchRule(base=2), 3, 144),
        (BatchRule(base=2, most=200), 8, 200),
        (BatchRule(base=2, most=10), 8, 96),
    ],
)
def test_the_batch_is_constant_or_in_proportion_to_the_workers(rule: BatchRule, workers: int, batch: int) -> None:
    assert rule.batch(96, workers) == batch


def test_a_larger_scale_is_approached_and_a_smaller_one_taken_at_once() -> None:
    scales = [1.0]
    while scales[-1] < 4.0:
        scales.append(ramped(scales[-1], 4.0))
    assert 10 < len(scales) < 100
    assert scales == sorted(scales)
    assert ramped(4.0, 2.0) == 2.0


def parameters() -> list[torch.nn.Parameter]:
    return [torch.nn.Parameter(torch.ones(2))]


def test_sgd_follows_the_batch_and_adam_its_root_for_the_time_of_a_step() -> None:
    sgd = torch.optim.SGD(parameters(), lr=0.1, momentum=0.9)
    with scaled(sgd, 4.0):
        assert sgd.param_groups[0]["lr"] == pytest.approx(0.4)
    assert sgd.param_groups[0]["lr"] == 0.1
    adam = torch.optim.AdamW(parameters(), lr=0.1, betas=(0.9, 0.999), eps=1e-8)
    with scaled(adam, 4.0):
        group = adam.param_groups[0]
        assert (group["lr"], group["eps"]) == (pytest.approx(0.2), pytest.approx(5e-9))
        assert group["betas"] == pytest.approx((0.6, 0.996))
    assert (group["lr"], group["betas"], group["eps"]) == (0.1, (0.9, 0.999), 1e-8)


@pytest.mark.parametrize(
    ("options", "fix"),
    [
        (Options(batch="grow"), "'constant' or 'scale'"),
        (Options(max_batch=9), "batch='scale' too"),
        (Options(batch="scale"), "take SGD or one of Adam's kind"),
    ],
)
def test_a_batch_that_cannot_grow_is_refused_with_the_fix(options: Options, fix: str) -> None:
    class Odd(torch.optim.Optimizer):  # type: ignore[misc,unused-ignore]  # torch may not be installed where types are checked
        def __init__(self, of: Any) -> None:
            super().__init__(of, {})

    data = DataLoader(TensorDataset(torch.zeros(8, 2)), 4)
    with pytest.raises(NotElasticError, match=fix):
        check([torch.nn.Linear(1, 1)], [Odd(parameters())], data, options)


def test_the_batch_grows_with_the_workers_and_falls_with_them_and_every_sample_is_seen_once() -> None:
    seen: list[tuple[int, int, int]] = []

    def script(worker: Worker) -> Any:
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        data = DataLoader(TensorDataset(torch.arange(100.0).reshape(-1, 1)), 6)
        made = worker.prepare(model, optimizer, data, batch="scale", max_batch=20)
        for epoch in worker.epochs(6):
            for (inputs,) in made:
                step = worker.engine.state.cursor.step
                optimizer.zero_grad()
                model(inputs).mean().backward()
                optimizer.step()
                if worker.engine.committed:
                    seen.extend((epoch, step, int(one)) for one in inputs.flatten())
        return worker.engine.state.cursor.scale, worker.engine.growth.batch

    found = Peers(3, {1: Break(6, lost=(2,))}, env={"MIN_SIZE": "1"}).run(script)
    assert found == [(2.0, 12), (2.0, 12)]
    first = {one for epoch, step, one in seen if (epoch, step) == (0, 0)}
    assert len(first) == 18, "three workers have three times the batch"
    assert sorted(one for epoch, _, one in seen if epoch == 1) == list(range(100))


def test_the_noise_scale_is_found_from_gradients_of_two_sizes() -> None:
    generator = torch.Generator().manual_seed(0)
    gradient, deviation, batch, workers = torch.full((200,), 0.2), 2.0, 64, 4
    noise = NoiseScale()
    assert noise.scale is None
    for _ in range(200):
        samples = gradient + deviation * torch.randn(batch, 200, generator=generator)
        shares = [float(part.mean(0).pow(2).sum()) for part in samples.split(batch // workers)]
        whole = float(samples.mean(0).pow(2).sum())
        noise.add(of_share=sum(shares) / workers, of_batch=whole, share=batch / workers, batch=batch)
    expected = deviation**2 * 200 / float(gradient.pow(2).sum())
    assert noise.scale == pytest.approx(expected, rel=0.3)
    noise.add(of_share=math.nan, of_batch=1.0, share=16, batch=64)
    assert noise.scale is not None
    assert math.isfinite(noise.scale)


def test_workers_measure_the_noise_of_their_gradients_and_report_it_with_their_pace() -> None:
    def script(worker: Worker) -> Any:
        model = torch.nn.Linear(8, 1)
        for parameter in model.parameters():
            torch.nn.init.zeros_(parameter)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        generator = torch.Generator().manual_seed(5)
        inputs = torch.randn(400, 8, generator=generator)
        data = DataLoader(TensorDataset(inputs, inputs.sum(dim=1, keepdim=True)), 8, shuffle=True)
        made = worker.prepare(model, optimizer, data)
        worker.engine.epochs = 3
        for _ in worker.epochs(3):
            for x, y in made:
                optimizer.zero_grad()
                torch.nn.functional.mse_loss(model(x), y).backward()
                optimizer.step()
        return dict(figures(worker.engine))

    first, second = Peers(2).run(script)
    assert first == second
    assert 1 < first.pop("noise") < 10_000
    assert first == {
        "workers": 2,
        "done": 150,
        "total": 150,
        "epoch": 3,
        "pause": None,
        "batch": 8,
        "tuned_batch": 8,
    }


def test_a_report_covers_a_time_without_a_change_of_members() -> None:
    now = 0.0
    sent: list[Any] = []
    pace = Pace(sent.append, every=5.0, clock=lambda: now)
    for generation, steps in ((1, 8), (2, 7)):
        for _ in range(steps):
            now += 1.0
            pace.add(generation, 10, lambda: {"workers": 2, "noise": None})
            if pace._under_way is not None:
                pace._under_way.join()
    until(lambda: len(sent) == 2, "both reports")
    assert sent == [{"throughput": 10.0, "span": 5.0, "workers": 2}] * 2


class Drawing(Dataset):  # type: ignore[type-arg,misc,unused-ignore]  # torch may not be installed where types are checked
    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> float:
        return float(torch.rand(1))


def test_random_numbers_of_a_sample_depend_on_seed_epoch_and_index_alone() -> None:
    data = SeededSamples(Drawing())
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    together = data.__getitems__([(7, 0, index) for index in range(20)])
    assert torch.equal(torch.rand(1), expected), "the script's own random numbers are as if nothing had been"
    assert [data.__getitems__([(7, 0, index)])[0] for index in range(20)] == together
    assert data.__getitems__([(7, 1, 0)])[0] != together[0] != data.__getitems__([(8, 0, 0)])[0]
    assert len(set(together)) == 20


class Counting(Drawing):
    def __init__(self, *, draws: bool) -> None:
        self.draws, self.made = draws, 0

    def __getitem__(self, index: int) -> float:
        self.made += 1
        return float(torch.rand(1)) if self.draws and index > 4 else float(index)


def test_only_the_first_batch_that_draws_is_made_twice() -> None:
    still, drawing = Counting(draws=False), Counting(draws=True)
    for data in (still, drawing):
        seeded = SeededSamples(data)
        for first in (0, 4, 8):
            torch.manual_seed(3)
            expected = torch.rand(1)
            torch.manual_seed(3)
            some = seeded.__getitems__([(7, 0, index) for index in range(first, first + 4)])
            assert torch.equal(torch.rand(1), expected)
            assert some == [SeededSamples(data).__getitems__([(7, 0, index)])[0] for index in range(first, first + 4)]
    assert still.made == 12 + 12
    assert drawing.made == 12 + 4 + 12 + 7, "each of the others drew alone, and was made twice if it did"
