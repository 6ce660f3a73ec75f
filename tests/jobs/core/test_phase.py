"""The state machine as a table, and what a grant leaves in status."""

from typing import Any

import pytest

from edl.jobs.core.grant import Grant, grant_in_status, with_grant
from edl.jobs.core.phase import Facts, next_phase
from edl.jobs.training.types import TrainingScale

NOW = 1_000_000_000.0


@pytest.mark.parametrize(
    ("old", "facts", "new"),
    [
        ("", {"held": True}, "creating"),
        ("", {}, "creating"),
        ("creating", {}, "creating"),
        ("creating", {"at_minimum": True}, "running"),
        ("creating", {"at_minimum": True, "settled": False}, "scaling"),
        ("running", {"at_minimum": True}, "running"),
        ("running", {"at_minimum": False, "settled": False}, "running"),
        ("running", {"at_minimum": True, "resized": True, "settled": False}, "scaling"),
        ("scaling", {"at_minimum": True, "settled": False}, "scaling"),
        ("scaling", {"at_minimum": True}, "running"),
        ("running", {"held": True}, "creating"),
        ("scaling", {"end": "failed"}, "failed"),
        ("creating", {"end": "succeeded"}, "succeeded"),
        ("succeeded", {"end": "failed"}, "succeeded"),
        ("failed", {"at_minimum": True, "resized": True}, "failed"),
    ],
)
def test_phases(old: str, facts: dict[str, Any], new: str) -> None:
    assert next_phase(old, Facts(**facts)) == new


def test_a_grant_is_remembered_with_its_reason() -> None:
    scale = with_grant(TrainingScale(), Grant(2, "Started", "starts with 2"), NOW, refresh_message=False)
    assert grant_in_status(scale) == Grant(2, "Started", "starts with 2")
    assert [(one.before, one.to, one.reason) for one in scale.history] == [(0, 2, "starts with 2")]
    assert grant_in_status(TrainingScale()) is None


def test_history_keeps_the_last_ten() -> None:
    scale = TrainingScale()
    for target in range(1, 15):
        scale = with_grant(scale, Grant(target), NOW + target, refresh_message=False)
    assert [one.to for one in scale.history] == list(range(5, 15))
    assert scale.last_scale_time == "2001-09-09T01:46:54Z"


def test_words_alone_are_written_when_it_is_time() -> None:
    old = TrainingScale(target=0, code="NoRoom", reason="needs 8 GPUs, 4 are free")
    news = Grant(0, "NoRoom", "needs 8 GPUs, 5 are free")
    assert with_grant(old, news, NOW, refresh_message=False) is old
    assert with_grant(old, news, NOW, refresh_message=True).reason == news.message
    assert with_grant(old, Grant(0, "QuotaReached", "quota"), NOW, refresh_message=False).code == "QuotaReached"


def test_the_first_word_of_a_job_that_waits_is_no_change_of_size() -> None:
    scale = with_grant(TrainingScale(), Grant(0, "NoRoom", "waits"), NOW, refresh_message=False)
    assert (scale.target, scale.history, scale.last_scale_time) == (0, (), None)
