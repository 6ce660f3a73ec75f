"""Lines above the table of a job that is followed: bars are in the table, everything else is shown."""

from typing import Any, cast

import pytest

from edl.cli.connect.jobs import summarize
from edl.cli.connect.pod_logs import LogLine
from edl.cli.output.job_output import AT_ONCE, Choice, JobOutput
from edl.jobs.registry import TRAINING_JOB

BAR = " 40%|####      | 12/30 [00:03<00:05,  3.2it/s]"
OTHER = "Loading weights: 100%|##########| 28/28 [00:00<00:00]"


def output(choice: Choice = "rank-0", *, read_progress: bool = True) -> JobOutput:
    named = {"metadata": {"name": "a", "namespace": "default", "uid": "u"}, "spec": {"trainer": {}}}
    client = cast(Any, None)  # nobody is asked: the lines are here
    return JobOutput(client, summarize(TRAINING_JOB, named), choice=choice, read_progress=read_progress)


def write(to: JobOutput, *lines: str) -> None:
    for text in lines:
        to._deliver(LogLine("a-worker-0", "2026-01-01T00:00:00Z", text))


def test_a_bar_is_progress_and_no_line() -> None:
    made = output()
    write(made, f"\r  3%|  | 1/30 [00:00<?]\r{BAR}", "{'loss': 0.31, 'epoch': 0.4}", OTHER)
    assert made.lines() == ["{'loss': 0.31, 'epoch': 0.4}", OTHER]
    progress = made.progress()
    assert progress is not None
    assert (progress.done, progress.total, progress.loss, progress.epoch) == (12, 30, 0.31, 0.4)


@pytest.mark.parametrize(("choice", "shown"), [("rank-0", [BAR]), ("all", [f"a-worker-0: {BAR}"]), ("none", [])])
def test_where_lines_are_not_read_a_bar_is_a_line(choice: Choice, shown: list[str]) -> None:
    made = output(choice, read_progress=False)
    write(made, f"\r  3%|  | 1/30 [00:00<?]\r{BAR}")
    assert made.lines() == shown
    assert made.progress() is None


def test_of_too_many_lines_the_newest_are_shown_and_the_rest_counted() -> None:
    made = output()
    write(made, *map(str, range(AT_ONCE + 5)))
    note, *lines = made.lines()
    assert note == "... 5 lines more: `edl logs a` has them all"
    assert lines == [str(number) for number in range(5, AT_ONCE + 5)]
