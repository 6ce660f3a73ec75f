"""A job's progress from its reports: the last figures, pace, mean and time left; whose word counts."""

from edl.operator.job_service.reported_progress import ReportedProgress
from edl.protocol.progress import LOG, LastProgress, ProgressReport


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def after(*reports: tuple[float, ProgressReport], at: float) -> LastProgress | None:
    clock = Clock()
    reported = ReportedProgress(clock)
    for when, report in reports:
        clock.now = when
        reported.add(report)
    clock.now = at
    return reported.last()


def test_nobody_who_said_nothing_has_progress() -> None:
    assert after(at=1.0) is None


def test_time_left_is_measured_where_steps_are_reported() -> None:
    steps = [(float(second), ProgressReport(done=10 * second, total=100, left=999.0)) for second in range(5)]
    last = after(*steps, at=5.0)
    assert last is not None
    assert (last.left, last.rate, last.age, last.seconds) == (5.0, 10.0, 1.0, 4.0)


def test_time_left_is_the_scripts_own_until_there_is_a_pace() -> None:
    last = after((0.0, ProgressReport(done=10, total=100, left=60.0)), at=5.0)
    assert last is not None
    assert last.left == 55.0


def test_the_mean_is_over_all_reports() -> None:
    reports = [(0.0, ProgressReport(loss=1.0)), (10.0, ProgressReport(throughput=10.0))]
    last = after(*reports, (30.0, ProgressReport(throughput=40.0)), at=30.0)
    assert last is not None
    assert (last.throughput, last.mean) == (40.0, 30.0)


def test_log_lines_count_until_somebody_who_knows_reports() -> None:
    read, known = ProgressReport(loss=1.0, source=LOG), ProgressReport(loss=2.0)
    first = after((0.0, read), at=0.0)
    both = after((0.0, known), (1.0, read), at=1.0)
    assert first is not None
    assert both is not None
    assert (first.loss, both.loss, both.age) == (1.0, 2.0, 1.0)


def test_a_sign_of_life_does_not_silence_log_lines() -> None:
    last = after((0.0, ProgressReport(pod="p")), (1.0, ProgressReport(loss=1.0, source=LOG)), at=1.0)
    assert last is not None
    assert last.loss == 1.0


def test_all_steps_are_done_when_hugging_face_says_one_hundred_percent() -> None:
    last = after((0.0, ProgressReport(done=3, total=40)), (1.0, ProgressReport(done=100, total=100)), at=1.0)
    assert last is not None
    assert (last.done, last.total, last.left) == (40, 40, 0.0)


def test_idle_is_the_time_since_a_report_showed_that_something_was_done() -> None:
    now = [100.0]
    reported = ReportedProgress(lambda: now[0])
    reported.add(ProgressReport(pod="p"))
    last = reported.last()
    assert last is not None
    assert last.idle is None, "a sign of life is none of progress"
    for after, report, idle in (
        (0.0, ProgressReport(done=1, total=9), 0.0),
        (5.0, ProgressReport(done=1, total=9, throughput=0.0), 5.0),
        (5.0, ProgressReport(done=2), 0.0),
        (7.0, ProgressReport(throughput=3.0), 0.0),
        (9.0, ProgressReport(pod="p"), 9.0),
    ):
        now[0] += after
        reported.add(report)
        last = reported.last()
        assert last is not None
        assert last.idle == idle
