"""Sizes that users ask for, by the number in the spec or by a request (decision 10): obeyed, held, released."""

from typing import Any

import pytest

from edl.scheduler.memory import Memory
from edl.scheduler.plan import Plan
from tests.scheduler.makers import (
    ALL,
    NOW,
    Data,
    elastic_job,
    node,
    of,
    planned,
    running,
    scaled,
    stamp,
    targets,
    training_job,
)

HOLD = 60.0
SCALE = "edl.dev/scale-request"


def looked(memory: Memory | None = None, *, now: float = NOW, request: str = "", **scale: Any) -> Plan:
    """A job of 3 that may have 1 to 7, and has a room for all of them."""
    notes = {SCALE: request} if request else {}
    status = scaled(100, 3, **scale)
    job = elastic_job("a", 1, 7, replicas=3, annotations=notes, status=status)
    return planned(node("n1", cpu=8), running(job, {"n1": 3}), memory=memory, now=now, scale_hold=HOLD, **ALL)


@pytest.mark.case("acceptance-10")
def test_a_request_for_the_number_in_the_spec_counts() -> None:
    memory = Memory(starts={"uid-default-a": 3})
    assert targets(looked(memory)) == {"a": 7}, "without it the job grows"
    asked = looked(memory, request="3@now")
    assert targets(asked) == {"a": 3}
    decision = of(asked, "a")
    assert (decision.held, decision.request) == ((3, NOW + HOLD), "3@now")
    assert "its user asked for 3, which is held until" in decision.reason
    later = looked(asked.memory, now=NOW + HOLD - 1, request="3@now")
    assert of(later, "a").held == (3, NOW + HOLD), "obeyed once, not anew in each cycle"
    assert targets(looked(later.memory, now=NOW + HOLD + 1, request="3@now")) == {"a": 7}


def test_another_request_counts_again() -> None:
    first = looked(Memory(), request="3@t1")
    second = looked(first.memory, now=NOW + 30, request="3@t2")
    assert of(second, "a").held == (3, NOW + 30 + HOLD)


@pytest.mark.parametrize(("size", "target"), [(5, 5), (2, 2), (99, 7)])
def test_a_request_is_obeyed_within_the_bounds(size: int, target: int) -> None:
    assert targets(looked(Memory(starts={"uid-default-a": 3}), request=f"{size}@t")) == {"a": target}


@pytest.mark.case("acceptance-10")
def test_a_hold_ends_when_its_user_says_so() -> None:
    asked = looked(Memory(), request="3@t1")
    released = looked(asked.memory, now=NOW + 5, request="none@t2")
    assert targets(released) == {"a": 7}
    assert (of(released, "a").held, of(released, "a").request) == (None, "none@t2")


def test_a_new_leader_goes_on_with_the_hold_that_status_tells_of() -> None:
    """Of a request or of `kubectl scale`: it remembers neither."""
    hold = {"size": 3, "until": stamp(-30)}
    taken_over = looked(None, hold=hold)
    assert (targets(taken_over), of(taken_over, "a").held) == ({"a": 3}, (3, NOW + 30))
    assert targets(looked(taken_over.memory, now=NOW + 31, hold=hold)) == {"a": 7}
    assert targets(looked(None, now=NOW + 31, hold=hold)) == {"a": 7}


def test_a_new_leader_does_not_obey_an_old_request_again() -> None:
    obeyed = {"request": "3@t1"}
    job = elastic_job("a", 1, 7, replicas=3, annotations={SCALE: "3@t1"}, status=scaled(100, 3, **obeyed))
    plan = planned(node("n1", cpu=8), running(job, {"n1": 3}), scale_hold=HOLD, **ALL)
    assert targets(plan) == {"a": 7}
    assert of(plan, "a").request == "3@t1"


def test_a_request_to_a_paused_job_is_obeyed_when_it_goes_on() -> None:
    notes = {SCALE: "2@t1", "edl.dev/pause": "true"}
    status: Data = {"scale_status": {"target": 3}}
    paused = training_job("a", 1, 7, annotations=notes, status=status)
    held = planned(node("n1", cpu=8), running(paused, {"n1": 3}), scale_hold=HOLD, **ALL)
    assert (targets(held), of(held, "a").request) == ({"a": 3}, "")
    resumed = training_job("a", 1, 7, annotations={SCALE: "2@t1"}, status=status)
    plan = planned(node("n1", cpu=8), running(resumed, {"n1": 3}), memory=held.memory, scale_hold=HOLD, **ALL)
    assert (targets(plan), of(plan, "a").request) == ({"a": 2}, "2@t1")


def test_kubectl_to_another_number_is_held_as_well() -> None:
    plan = looked(Memory(starts={"uid-default-a": 5}))
    assert (targets(plan), of(plan, "a").held) == ({"a": 3}, (3, NOW + HOLD))
