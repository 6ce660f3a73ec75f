"""Progress in a job's status: every 30 s at most, when it reads differently, and for the last time at the end."""

from typing import Any

import pytest

from edl.api.kubernetes import timestamp
from edl.api.status import JobProgress
from tests.jobs.pytorch.world import PytorchWorld, elastic
from tests.jobs.world import START


def world(**job: Any) -> PytorchWorld:
    made = PytorchWorld(elastic(**job))
    made.give(2)
    return made


def report(made: PytorchWorld, percent: int, eta: str = "5m") -> Any:
    """What stands in status after a report and everything that it brings about."""
    made.progress = JobProgress(shown=f"{percent}%", eta=eta, done=percent, total=100, loss=1.0 / (percent + 1))
    made.live()
    return shown(made)


def shown(made: PytorchWorld) -> Any:
    found = made.status.get("progress")
    return found and (found["shown"], found.get("eta", ""), timestamp.seconds(found["time"]) - START)


def test_the_first_report_is_written_at_once_and_the_next_after_a_while() -> None:
    made = world()
    assert shown(made) is None
    assert report(made, 1) == ("1%", "5m", 0.0)
    made.now += 29
    assert report(made, 7) == ("1%", "5m", 0.0)
    made.now += 1
    assert report(made, 7) == ("7%", "5m", 30.0)


def test_what_reads_alike_is_not_written_again() -> None:
    made = world()
    report(made, 1)
    made.now += 300
    writes = len(made.writes)
    assert report(made, 1) == ("1%", "5m", 0.0)
    assert len(made.writes) == writes


@pytest.mark.parametrize("job", [{"annotations": {"edl.dev/pause": "true"}}, {"suspend": True}])
def test_a_job_that_is_held_is_left_alone(job: Any) -> None:
    assert report(world(**job), 1) is None


def test_the_last_figures_come_with_the_end_and_stay() -> None:
    made = world()
    report(made, 1)
    made.now += 3
    made.progress = JobProgress(shown="100%", eta="<1m", done=100, total=100, loss=0.5, mean=12.0, seconds=3.0)
    for worker in made.workers:
        made.end(worker, 0)
    made.live()
    assert made.status["phase"] == "Succeeded"
    assert made.status["progress"]["mean"] == 12.0
    assert shown(made) == ("100%", "", 3.0)
    made.now += 100
    assert report(made, 50) == ("100%", "", 3.0)


def test_progress_is_kept_when_nobody_tells_of_it_any_more() -> None:
    made = world()
    report(made, 40)
    made.progress = None
    made.give(3)
    assert shown(made) == ("40%", "5m", 0.0)
