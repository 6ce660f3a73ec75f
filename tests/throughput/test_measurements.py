"""Measurements of a job: samples become points and fade, nonsense is none of them, and all of it stays small."""

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from edl.throughput.measured_model import measured_model
from edl.throughput.measurements import MeasuredPoint, Measurements, has_news, with_sample

KIB = 1024


def measured(*points: MeasuredPoint, **more: object) -> Measurements:
    found = Measurements(**more)  # type: ignore[arg-type]  # fields of it
    for point in points:
        found = with_sample(found, point)
    return found


def at(workers: int, throughput: float, *, nodes: int = 0, batch: int = 0, seconds: float = 5.0) -> MeasuredPoint:
    return MeasuredPoint(workers, nodes, batch, throughput, seconds)


HUGE = "1" + "0" * 400


@pytest.mark.case("attack-5")
@pytest.mark.parametrize(
    "text",
    [
        f'{{"points":[[2,1,0,10.0,5.0]],"per_step":3.0,"done":1,"total":{HUGE}}}',
        f'{{"points":[[2,1,0,10.0,5.0]],"steps":true,"done":-{HUGE},"total":5}}',
        f'{{"points":[[2,1,{HUGE},10.0,5.0]],"noise":1.0,"tuned_batch":{HUGE}}}',
        f'{{"points":[[2,1,8,10.0,5.0,0.0,{HUGE}]]}}',
    ],
    ids=["total", "done", "batch", "samples"],
)
def test_numbers_that_no_arithmetic_holds_are_not_read(text: str) -> None:
    """The attack: who may edit the job's ConfigMap wrote one, and no plan of the whole cluster could be made."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=Measurements)


def test_samples_of_one_place_are_one_point() -> None:
    (point,) = measured(at(4, 100.0), at(4, 110.0), at(4, 90.0)).points
    assert point.throughput == pytest.approx(100.0, rel=0.01)
    assert (point.samples, point.seconds) == (3, 15.0)
    assert 0.04 < point.spread < 0.12


def test_places_and_batches_are_points_of_their_own() -> None:
    found = measured(at(4, 100.0, nodes=1), at(4, 80.0, nodes=2), at(4, 120.0, nodes=1, batch=64))
    assert [point.where for point in found.points] == [(4, 1, 0), (4, 2, 0), (4, 1, 64)]


def test_old_samples_fade() -> None:
    found = measured(*[at(2, 100.0)] * 200, *[at(2, 50.0)] * 200)
    assert found.points[0].throughput < 55.0


@pytest.mark.parametrize(
    "point",
    [
        at(0, 1.0),
        at(-1, 1.0),
        at(10**9, 1.0),
        at(2, 0.0),
        at(2, -1.0),
        at(2, math.nan),
        at(2, math.inf),
        at(2, 1e-300),
        at(2, 1.0, seconds=0.0),
        at(2, 1.0, seconds=math.nan),
        at(2, 1.0, nodes=3),
        at(2, 1.0, batch=-1),
    ],
)
def test_nonsense_is_no_measurement(point: MeasuredPoint) -> None:
    assert with_sample(Measurements(), point) == Measurements()


numbers = st.floats(allow_nan=True, allow_infinity=True)


@given(st.lists(st.builds(at, st.integers(), numbers, nodes=st.integers(), seconds=numbers), max_size=60))
def test_a_model_of_anything_is_finite_and_the_measurements_stay_within_4_kib(points: list[MeasuredPoint]) -> None:
    found = measured(*points, done=3, total=10**12, per_step=1e9, noise=1e14, pause=3599.99)
    assert len(msgspec.json.encode(found)) <= 4 * KIB
    model = measured_model(found, 64)
    assert model is None or all(math.isfinite(rate) and rate > 0 for rate in model.rates)


def test_the_largest_that_it_can_become_is_within_4_kib() -> None:
    worst = [MeasuredPoint(999_999, 100_000 + n, 10**14, 123456.789e9, 0.1, 1 / 3, 50) for n in range(100)]
    found = measured(*worst, *worst, done=2**52, total=2**52, per_step=1e14 / 3, noise=1e14 / 3, tuned_batch=2**52)
    assert len(found.points) == 32
    assert len(msgspec.json.encode(found)) <= 4 * KIB


def test_news_are_another_curve_and_not_how_far_the_job_has_come() -> None:
    known = measured(at(2, 100.0), at(4, 150.0))
    assert not has_news(known, replace(known, done=5, total=10))
    assert not has_news(known, with_sample(known, at(2, 101.0)))
    assert has_news(known, with_sample(known, at(8, 200.0)))
    assert has_news(known, replace(known, pause=3.0))
    assert has_news(replace(known, noise=100.0), replace(known, noise=200.0))


def test_work_that_is_left_is_in_the_unit_of_throughput() -> None:
    assert Measurements(done=10, total=100).remaining is None
    assert Measurements(done=10, total=100, steps=True).remaining == 90.0
    assert Measurements(done=10, total=100, per_step=32.0).remaining == 90 * 32.0
    assert Measurements(done=100, total=10, steps=True).remaining == 0.0
    assert Measurements(done=1, total=0, steps=True).remaining is None
