"""The fit: both shapes are found again from their own points, and nothing is read out of noise."""

import numpy as np
import pytest

from edl.brain.policy.measurements import throughput_points
from edl.protocol.job_facts import Sample
from edl.throughput.curve import Curve, fit
from edl.throughput.points import ThroughputPoint, noise


def measured(law: dict[int, float]) -> list[ThroughputPoint]:
    return [ThroughputPoint(workers, throughput, 60.0) for workers, throughput in law.items()]


def test_a_knee_is_found_between_the_sizes_that_were_tried() -> None:
    curve = fit(measured({2: 20, 4: 40, 8: 60}))
    assert curve is not None
    assert (curve.shape, curve.values) == ("knee", (10.0, 60.0))
    assert [curve.marginal(size) for size in (6, 7)] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("own", "shared", "pairs"), [(0.1, 0.0, 0.0), (0.1, 0.02, 0.0), (0.05, 0.01, 0.004), (0.0, 0.02, 0.0)]
)
def test_the_law_of_queueing_is_found_again(own: float, shared: float, pairs: float) -> None:
    def law(n: int) -> float:
        return n / (own + shared * n + pairs * n * n)

    curve = fit(measured({n: law(n) for n in (1, 2, 4, 8, 12)}))
    assert curve is not None
    assert [curve.at(n) for n in (3, 6, 16)] == pytest.approx([law(n) for n in (3, 6, 16)], rel=0.03)


def test_unknowns_are_never_negative_and_throughput_never_below_zero() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        sizes = sorted(rng.choice(np.arange(1, 40), size=rng.integers(1, 7), replace=False))
        curve = fit([ThroughputPoint(int(n), float(rng.uniform(1, 100)), 30.0) for n in sizes])
        assert curve is not None
        assert min(curve.values) >= 0
        assert all(curve.at(n) >= 0 for n in range(60))
        assert 0 <= curve.confidence <= 1


def test_two_sizes_on_a_line_within_the_noise_are_a_line() -> None:
    curve = fit(measured({2: 20, 4: 39}))
    assert curve is not None
    assert curve.unknowns == 1
    assert curve.at(8) == pytest.approx(80, rel=0.03)


def test_one_size_says_nothing_of_the_next() -> None:
    curve = fit(measured({3: 30}))
    assert curve is not None
    assert (curve.at(6), curve.sizes) == (60.0, 1)
    assert curve.confidence < 0.4
    assert fit([]) is None


def test_a_size_is_the_mean_of_its_samples_in_which_a_spike_moves_little() -> None:
    samples = [Sample(time, 10.0, 4, rate) for time, rate in enumerate((40, 41, 400, 39, 40))]
    (point,) = throughput_points([*samples, Sample(9, 10.0, 0, 5.0), Sample(9, 10.0, 4, 0.0)])
    assert (point.workers, point.samples) == (4, 5)
    assert point.throughput == pytest.approx(40, rel=0.03)
    assert noise([point]) < 0.06


def test_what_is_unbounded_is_not_an_unknown() -> None:
    assert Curve("knee", (10.0, float("inf")), 0.0, 1, 2).unknowns == 1
