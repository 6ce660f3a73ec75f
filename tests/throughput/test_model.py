"""The model of a job: rates between sizes, what is left, and only sense survives."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edl.throughput.model import curve_model, job_model, prior_rate
from edl.throughput.points import ThroughputPoint


def test_rates_are_straight_between_sizes_and_constant_beyond() -> None:
    model = job_model((1, 2, 4), (10.0, 18.0, 30.0), remaining=90.0)
    assert model is not None
    assert [model.rate(size) for size in (0, 1, 3, 4, 9)] == [0.0, 10.0, 24.0, 30.0, 30.0]
    assert model.seconds_left(4) == 3.0
    assert model.scattered_rate(3) == 24.0


def test_what_is_left_is_unknown_unless_declared() -> None:
    model = job_model((1,), (10.0,))
    assert model is not None
    assert model.seconds_left(1) is None


def test_nobody_is_faster_scattered_over_nodes() -> None:
    model = job_model((1, 2), (10.0, 20.0), scattered=(99.0, 15.0))
    assert model is not None
    assert [model.scattered_rate(size) for size in (1, 2)] == [10.0, 15.0]


ANY = st.one_of(st.floats(), st.sampled_from((0.0, -1.0, math.inf, math.nan)))


@given(st.lists(st.tuples(st.integers(-2, 100), ANY), max_size=8), ANY, ANY)
def test_a_model_of_nonsense_is_sensible_or_none(
    pairs: list[tuple[int, float]], remaining: float, uncertainty: float
) -> None:
    sizes, rates = [size for size, _ in pairs], [rate for _, rate in pairs]
    model = job_model(sizes, rates, scattered=rates[::-1], remaining=remaining, uncertainty=uncertainty)
    if model is None:
        return
    assert list(model.sizes) == sorted(set(model.sizes))
    for size in (1, 2, 50, 1000):
        assert 0 < model.rate(size) < math.inf
        assert 0 <= model.scattered_rate(size) <= model.rate(size)
        left = model.seconds_left(size)
        assert left is None or 0 <= left < math.inf


def test_the_prior_gains_less_with_every_instance() -> None:
    gains = [prior_rate(size + 1) - prior_rate(size) for size in range(8)]
    assert gains == sorted(gains, reverse=True)
    assert prior_rate(1) == 1.0


def test_a_curve_of_throughput_by_size_alone_is_a_model() -> None:
    points = [ThroughputPoint(2, 20.0, 60.0), ThroughputPoint(4, 40.0, 60.0), ThroughputPoint(8, 60.0, 60.0)]
    model = curve_model(points, 100)
    assert model is not None
    assert [model.rate(size) for size in (1, 6, 50)] == [10.0, 60.0, 60.0]
    assert model.explored == 8
    assert model.sizes[-1] == 100
    assert len(model.sizes) < 40


@pytest.mark.parametrize("throughput", [0.0, -5.0, math.inf, math.nan])
def test_a_throughput_that_is_none_is_left_out(throughput: float) -> None:
    assert curve_model([ThroughputPoint(2, throughput, 60.0)], 8) is None
    known = curve_model([ThroughputPoint(1, 5.0, 60.0), ThroughputPoint(2, throughput, 60.0)], 8)
    assert known is not None
    assert known.rate(2) == 10.0
