"""Step times: laws are found again from their own points, and nonsense gives a usable fit or none."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edl.throughput.batch import BatchRange, best_batches
from edl.throughput.efficiency import efficiency, noise_scale
from edl.throughput.step_time import MeasuredStep, StepTime, fit_step_time

LAW = StepTime(0.05, 0.002, 0.02, 0.001, 0.06, 0.002)


def measured(law: StepTime, *shapes: tuple[int, int, int, int]) -> list[MeasuredStep]:
    return [MeasuredStep(*shape[:3], law.seconds(*shape), shape[3]) for shape in shapes]


def test_a_law_is_found_again_from_its_own_points() -> None:
    shapes = [
        (workers, nodes, batch, passes)
        for workers, nodes in ((1, 1), (2, 1), (4, 1), (8, 2), (16, 4))
        for batch in (16, 64)
        for passes in (0, 1)
    ]
    found = fit_step_time(measured(LAW, *shapes))
    assert found is not None
    for shape in ((3, 1, 32, 0), (12, 3, 128, 2), (1, 1, 8, 0)):
        assert found.seconds(*shape) == pytest.approx(LAW.seconds(*shape), rel=0.1)


def test_one_point_is_met_and_more_workers_are_hoped_to_cost_nothing() -> None:
    found = fit_step_time(measured(LAW, (1, 1, 32, 0)))
    assert found is not None
    assert found.seconds(1, 1, 32) == pytest.approx(LAW.seconds(1, 1, 32), rel=0.02)
    assert found.seconds(4, 1, 32) == pytest.approx(found.seconds(1, 1, 32))


def test_several_nodes_are_never_taken_to_be_cheaper_than_one() -> None:
    found = fit_step_time(measured(LAW, (1, 1, 32, 0), (2, 1, 32, 0), (4, 1, 32, 0)))
    assert found is not None
    assert found.synchronising(8, 2) >= found.synchronising(8, 1) > 0


def test_nothing_measured_is_no_fit() -> None:
    assert fit_step_time([]) is None


NONSENSE = st.sampled_from((0.0, -1.0, math.inf, -math.inf, math.nan, 1e-300, 1e300, 1e-9, 1.0, 5.0))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.builds(
            MeasuredStep,
            workers=st.integers(-1, 64),
            nodes=st.integers(-1, 20),
            batch=st.integers(-1, 10**9),
            seconds=st.one_of(NONSENSE, st.floats(1e-6, 1e4)),
            accumulation=st.integers(-1, 9),
        ),
        max_size=12,
    )
)
# They differ so much that nothing remains of the prior: fewer equations than unknowns.
@example([MeasuredStep(64, 2, 536_098_866, 1.0), MeasuredStep(3, 2, 1, 9e8)])
def test_a_fit_to_nonsense_is_finite_and_never_negative(steps: list[MeasuredStep]) -> None:
    found = fit_step_time(steps)
    if found is None:
        return
    for workers, nodes in ((1, 1), (2, 1), (8, 2), (64, 16)):
        seconds = found.seconds(workers, nodes, 8)
        assert math.isfinite(seconds)
        assert seconds >= 0


def test_noise_decides_what_a_larger_batch_is_worth() -> None:
    assert efficiency(math.inf, 1024, 32) == 1.0
    assert efficiency(0.0, 64, 32) == 0.5
    assert efficiency(32.0, 96, 32) == 0.5
    assert noise_scale(2.0, 4.0, 10) == 20
    for squared, variance in ((0.0, 1.0), (math.nan, 1.0), (1.0, -1.0), (-1.0, 1.0)):
        assert noise_scale(squared, variance, 32) == math.inf


@pytest.mark.parametrize(("noise", "batch"), [(math.inf, 512), (0.0, 32)])
def test_the_best_batch_is_large_where_noise_is_and_small_where_it_is_not(noise: float, batch: int) -> None:
    allowed = BatchRange(tuned=32, most=512, least_of_worker=8, most_of_worker=128)
    best = best_batches(LAW, noise, allowed, np.array([4]), np.array([1]))
    assert 4 * int(best.batches[0]) * (int(best.accumulations[0]) + 1) == batch


def test_a_size_for_which_the_largest_batch_is_too_small_has_no_rate() -> None:
    allowed = BatchRange(tuned=32, most=64, least_of_worker=8, most_of_worker=128)
    best = best_batches(LAW, 100.0, allowed, np.array([8, 9]), np.array([2, 3]))
    assert best.rates[0] > 0
    assert best.rates[1] == 0
