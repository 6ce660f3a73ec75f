"""Samples of throughput out of reports: stretches in which nobody came or went, by size, of all kinds of reporters."""

import math

import pytest

from edl.operator.throughput.sampling import Sampler
from edl.protocol.progress import ProgressReport
from edl.throughput.measurements import MeasuredPoint, Measurements


class Job:
    """A job that reports; time is a number."""

    def __init__(self, size: int = 2, nodes: int = 1, most: int = 16) -> None:
        self.now = 0.0
        self.most = most
        self.sampler = Sampler(lambda: self.now)
        self.resized(size, nodes)

    def resized(self, size: int, nodes: int = 1) -> None:
        self.sampler.observe(size, nodes)

    def reports(self, seconds: float = 5.0, **figures: object) -> None:
        self.now += seconds
        self.sampler.add(ProgressReport(**figures), self.most)  # type: ignore[arg-type]  # fields of it

    @property
    def rates(self) -> dict[tuple[int, int, int], float]:
        return {point.where: point.throughput for point in self.sampler.measured.points}


def test_a_steady_job_has_one_point() -> None:
    job = Job()
    for _ in range(4):
        job.reports(throughput=100.0)
    assert job.rates == {(2, 1, 0): 100.0}


def test_a_stretch_with_a_change_of_size_is_no_sample() -> None:
    job = Job()
    for _ in range(3):
        job.reports(throughput=100.0)
    job.resized(4, 2)
    job.reports(throughput=140.0)  # of some time before, a pause, and some time after
    job.reports(throughput=190.0)
    assert job.rates == {(2, 1, 0): 100.0, (4, 2, 0): 190.0}


def test_a_mean_over_a_window_counts_once_the_window_is_of_one_size() -> None:
    """As Paddle's master reports: every second, of the last ten."""
    job = Job()
    for _ in range(15):
        job.reports(1.0, throughput=100.0, span=10.0)
    job.resized(4)
    for second in range(25):
        job.reports(1.0, throughput=100.0 + 10.0 * min(second + 1, 10), span=10.0)
    assert job.rates[(4, 1, 0)] == pytest.approx(200.0)


def test_who_names_its_workers_and_the_span_is_believed_at_once() -> None:
    """A worker of the new round tells its own pace; the operator still sees another size."""
    job = Job(size=2)
    job.reports(throughput=100.0, workers=2, span=5.0)
    job.resized(4)
    job.reports(throughput=100.0, workers=2, span=5.0)
    job.reports(throughput=180.0, workers=4, span=3.0, batch=128)
    assert job.rates == {(2, 1, 0): 100.0, (2, 0, 0): 100.0, (4, 1, 128): 180.0}


def test_steps_count_where_samples_are_not_told() -> None:
    """As Hugging Face's Trainer and Lightning report."""
    job = Job()
    for step in range(0, 60, 10):
        job.reports(done=step, total=100)
    measured = job.sampler.measured
    assert job.rates == {(2, 1, 0): 2.0}
    assert (measured.steps, measured.remaining) == (True, 50.0)


def test_samples_of_a_step_say_what_is_left() -> None:
    job = Job()
    for step in range(0, 60, 10):
        job.reports(done=step, total=100, throughput=64.0)
    assert job.sampler.measured.remaining == pytest.approx(50 * 32.0)


def test_steps_give_way_to_samples_once_those_are_told() -> None:
    job = Job()
    for step in range(0, 30, 10):
        job.reports(done=step, total=100)
    for step in range(30, 60, 10):
        job.reports(done=step, total=100, throughput=64.0)
    assert not job.sampler.measured.steps
    assert job.rates == {(2, 1, 0): 64.0}


def test_the_pause_of_a_change_is_what_was_not_done_meanwhile() -> None:
    job = Job()
    for _ in range(3):
        job.reports(throughput=100.0)
    job.resized(4)
    job.reports(20.0, throughput=200.0, span=5.0)  # a new process: its pace is of its own five seconds
    job.reports(throughput=200.0, span=5.0)
    assert job.sampler.measured.pause == pytest.approx(15.0)


def test_a_pause_that_is_told_counts() -> None:
    job = Job()
    job.reports(throughput=100.0)
    job.reports(throughput=100.0, pause=1.5)
    job.resized(4)
    job.reports(20.0, throughput=200.0, span=5.0)
    job.reports(throughput=200.0, span=5.0)
    assert job.sampler.measured.pause == 1.5


@pytest.mark.parametrize(
    "figures",
    [
        {"throughput": -5.0},
        {"throughput": math.inf},
        {"throughput": math.nan},
        {"throughput": 1e300},
        {"throughput": 100.0, "workers": 17},
        {"throughput": 100.0, "workers": 0},
        {"throughput": 100.0, "workers": -(10**30)},
        {"throughput": 0.0, "done": -5, "total": -10},
        {"done": 10**40, "total": 10**40},
        {"pause": math.nan, "noise": math.inf, "batch": -1, "tuned_batch": -1},
        {"pause": 1e9, "noise": -1.0, "span": -1.0},
    ],
)
def test_nonsense_is_no_sample(figures: dict[str, float]) -> None:
    job = Job(most=16)
    for _ in range(5):
        job.reports(**figures)
    assert job.sampler.measured == Measurements()


def test_a_new_leader_goes_on_from_what_was_kept() -> None:
    job = Job(size=4)
    kept = Measurements((MeasuredPoint(2, 1, 0, 100.0, 60.0),), done=1, total=100, per_step=10.0, pause=3.0)
    job.sampler.restore(kept)
    for _ in range(3):
        job.reports(throughput=180.0)
    assert job.rates == {(2, 1, 0): 100.0, (4, 1, 0): 180.0}
    assert job.sampler.measured.pause == 3.0
    job.sampler.restore(Measurements())
    assert len(job.rates) == 2


def test_its_number_changes_after_news_alone() -> None:
    job = Job()
    for _ in range(3):
        job.reports(throughput=100.0)
    known = job.sampler.revision
    assert known
    for done in range(10):
        job.reports(throughput=101.0, done=done, total=100)
    assert job.sampler.revision == known
