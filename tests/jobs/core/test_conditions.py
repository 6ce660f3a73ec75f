"""Writes of conditions: each change of state, each generation, and messages alone once a minute."""

import pytest

from edl.jobs.core.conditions import MESSAGE_INTERVAL, Conditions

NOW = 1_000_000_000.0


@pytest.mark.case("acceptance-5")
@pytest.mark.parametrize(
    ("generation", "later", "message", "written"),
    [
        pytest.param(1, 1.0, "first", False, id="nothing is new"),
        pytest.param(1, 1.0, "second", False, id="another message, too soon"),
        pytest.param(1, MESSAGE_INTERVAL, "second", True, id="another message, a minute later"),
        pytest.param(2, 1.0, "second", True, id="another message about another generation"),
        pytest.param(2, 1.0, "first", False, id="the same about another generation"),
    ],
)
def test_a_message_alone(generation: int, later: float, message: str, written: bool) -> None:
    old = Conditions((), generation=1, now=NOW)
    old.set("Valid", False, "EditRefused", "first")
    new = Conditions(old.result(), generation=generation, now=NOW + later)
    new.set("Valid", False, "EditRefused", message)
    assert (new.result() != old.result()) is written
    if written:
        assert new.result()[0].message == message
        assert new.result()[0].last_transition_time == old.result()[0].last_transition_time
