"""Connections that have proved nothing: which goes when there are too many, and how often a shortage is reported."""

import logging

import pytest

from edl.serving.scarcity import Notice
from edl.serving.unproven import Unproven

pytestmark = pytest.mark.case("attack-9")


def test_the_oldest_of_the_peer_that_has_most_goes_first() -> None:
    waiting: Unproven[str] = Unproven()
    waiting.add("honest", "10.0.0.1", 0.0)
    for number in range(3):
        waiting.add(f"bad{number}", "10.0.0.2", 1.0 + number)
    assert waiting.victim(before=10.0) == "bad0"
    assert waiting.victim(before=1.0) is None, "each has its grace"
    assert waiting.oldest() == ("honest", 0.0)
    for number in range(3):
        waiting.discard(f"bad{number}")
        waiting.discard(f"bad{number}")
    assert (len(waiting), waiting.victim(before=10.0)) == (1, "honest")
    waiting.discard("honest")
    assert (len(waiting), waiting.victim(before=10.0), waiting.oldest()) == (0, None, None)


def test_what_runs_out_is_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    notice = Notice(logging.getLogger("test"), "nothing is left of %s", clock=lambda: now[0])
    for _ in range(70_000):
        notice("it")
    assert [record.getMessage() for record in caplog.records] == ["nothing is left of it"]
    now[0] = 61.0
    notice("it")
    assert caplog.records[-1].getMessage() == "nothing is left of it (70000 times since the last notice)"
