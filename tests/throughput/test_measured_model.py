"""The model that follows from a job's measurements: its curve, what scattering and large batches cost, what is left."""

import pytest

from edl.throughput.measured_model import measured_model
from edl.throughput.measurements import MeasuredPoint, Measurements
from edl.throughput.model import JobModel


def model(*points: MeasuredPoint, most: int = 16, **more: object) -> JobModel:
    found = measured_model(Measurements(points, **more), most)  # type: ignore[arg-type]  # fields of it
    assert found is not None
    return found


def at(workers: int, throughput: float, nodes: int = 0, batch: int = 0) -> MeasuredPoint:
    return MeasuredPoint(workers, nodes, batch, throughput, 60.0, 0.01, 10)


def test_a_job_that_has_measured_nothing_has_no_model() -> None:
    assert measured_model(Measurements(done=1, total=2), 8) is None


def test_one_size_is_a_guess_beyond_it() -> None:
    found = model(at(4, 100.0))
    assert found.rate(4) == pytest.approx(100.0)
    assert (found.explored, found.uncertainty) == (4, 0.2)


def test_a_curve_that_saturates_is_found() -> None:
    found = model(at(1, 100.0), at(2, 170.0), at(4, 260.0), at(8, 330.0))
    assert found.rate(4) == pytest.approx(260.0, rel=0.05)
    assert found.rate(16) < 420.0
    assert found.explored == 8


def test_the_curve_is_of_the_fewest_nodes_and_scattering_is_a_factor() -> None:
    found = model(at(2, 100.0, nodes=1), at(4, 200.0, nodes=1), at(4, 100.0, nodes=4))
    assert found.rate(4) == pytest.approx(200.0, rel=0.02)
    assert found.scattered_rate(4) == pytest.approx(100.0, rel=0.02)
    assert found.scattered_rate(2) == pytest.approx(50.0, rel=0.02)


def test_samples_of_a_larger_batch_count_less_where_the_noise_is_known() -> None:
    plain = model(at(1, 100.0, batch=64), at(4, 400.0, batch=256))
    noisy = model(at(1, 100.0, batch=64), at(4, 400.0, batch=256), noise=64.0, tuned_batch=64)
    assert plain.rate(4) == pytest.approx(400.0, rel=0.02)
    assert noisy.rate(4) == pytest.approx(400.0 * (64 + 64) / (64 + 256), rel=0.02)


def test_work_left_and_pause_come_along() -> None:
    found = model(at(2, 100.0), done=50, total=100, per_step=64.0, pause=2.5)
    assert found.remaining == 3200.0
    assert found.seconds_left(2) == pytest.approx(32.0)
    assert found.pause == 2.5


def test_a_larger_batch_does_not_change_when_the_job_ends_at_its_size() -> None:
    """Steps are declared: at this size and batch they take as long as they take."""
    found = model(at(4, 400.0, batch=256), done=0, total=100, per_step=256.0, noise=64.0, tuned_batch=64)
    assert found.seconds_left(4) == pytest.approx(100 * 256 / 400, rel=0.05)
