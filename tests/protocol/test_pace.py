"""The pace of a training, and the time left at that pace."""

from edl.protocol.pace import Pace


def test_one_report_says_nothing_of_the_pace() -> None:
    pace = Pace()
    pace.add(0.0, 10)
    assert (pace.rate(), pace.left(1.0, 100)) == (None, None)


def test_time_left_follows_from_the_pace_and_runs_down_between_reports() -> None:
    pace = Pace()
    for second in range(5):
        pace.add(float(second), 10 * second)
    assert (pace.rate(), pace.left(4.0, 100)) == (10.0, 6.0)
    assert pace.left(6.0, 100) == 4.0
    assert pace.left(1000.0, 100) == 0.0


def test_only_what_was_of_late_counts_but_rare_reports_do() -> None:
    pace = Pace(window=20.0)
    for at, done in ((0.0, 0), (100.0, 1000), (110.0, 1010), (120.0, 1020)):
        pace.add(at, done)
    assert pace.rate() == 1.0
    rare = Pace(window=20.0)
    rare.add(0.0, 0)
    rare.add(300.0, 30)
    assert rare.rate() == 0.1


def test_going_back_to_a_checkpoint_begins_anew() -> None:
    pace = Pace()
    for at, done in ((0.0, 50), (1.0, 60), (2.0, 40)):
        pace.add(at, done)
    assert pace.rate() is None
    pace.add(4.0, 50)
    assert pace.left(4.0, 100) == 10.0
