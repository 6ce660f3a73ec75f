"""Failures of slots under every policy: who is followed, how soon, and when a slot or the whole set is given up."""

import pytest

from edl.jobs.core.pods.failures import LONGEST_PAUSE, NO_LIMIT, RESET_AFTER, STALLED, Rules
from edl.jobs.core.pods.pod_set import PodSetPlan
from edl.jobs.core.pods.slot_history import SlotHistory
from edl.jobs.core.pods.slots import State
from tests.jobs.core.pods.test_pod_set import FRESH, NOW, created, deleted, plan, pod

EQUALS = Rules(equals=True)


def fail_in_a_row(times: int, rules: Rules, *, started: float = NOW, ran: float = 0.0) -> PodSetPlan:
    """Slot 0 fails `times` times, each pod as soon as it runs; the last one was started at `started`."""
    record: SlotHistory = FRESH
    for attempt in range(times):
        last = pod(0, "failed", attempt, exit_code=1, started=started, ended=NOW, ran=ran)
        result = plan(1, last, record=record, rules=rules)
        record = result.record
    return result


@pytest.mark.parametrize(
    ("failures", "pause"), [(1, 0.0), (2, 1.0), (3, 2.0), (5, 8.0), pytest.param(40, LONGEST_PAUSE, id="longest")]
)
def test_the_first_failure_is_followed_at_once_and_the_next_ones_later_each_time(failures: int, pause: float) -> None:
    result = fail_in_a_row(failures, Rules(NO_LIMIT))
    if pause:
        assert (created(result), result.requeue_at) == ([], NOW + pause)
    else:
        assert created(result) == ["j-w-0-1"]
    again = fail_in_a_row(failures, Rules(NO_LIMIT), started=NOW - pause)
    assert created(again) == [f"j-w-0-{failures}"], "whoever ran for so long is followed at once"


@pytest.mark.parametrize("state", ["lost", "running"])
def test_who_was_lost_is_followed_at_once_however_often_its_slot_failed(state: State) -> None:
    record = fail_in_a_row(5, Rules()).record
    result = plan(1, pod(0, state, 5, started=NOW, leaving=state == "running"), record=record)
    assert created(result) == ["j-w-0-6"]


def test_a_slot_that_waits_holds_its_place() -> None:
    result = fail_in_a_row(3, Rules())
    assert (created(result), result.given_up) == ([], ())
    others = plan(2, pod(0, "failed", 2, started=NOW), record=result.record)
    assert created(others) == ["j-w-1"], "the other slot is not held up, and no third one is opened"


def test_who_ran_for_a_while_starts_anew() -> None:
    assert created(fail_in_a_row(5, Rules(), ran=RESET_AFTER)) == ["j-w-0-5"]


def test_again_follows_a_good_end_too() -> None:
    result = plan(2, pod(0, "succeeded", started=NOW), pod(1), rules=Rules(NO_LIMIT, again=True))
    assert (created(result), result.counts.succeeded, result.counts.failed) == (["j-w-0-1"], 0, 0)
    second = pod(0, "succeeded", 1, started=NOW)
    result = plan(2, second, pod(1), record=result.record, rules=Rules(NO_LIMIT, again=True))
    assert (created(result), result.requeue_at) == ([], NOW + 1.0), "one that ends at once does not spin"


def test_a_pod_that_gets_nowhere_is_replaced_and_counts() -> None:
    hung = pod(0)
    result = plan(2, hung, pod(1), stalled=frozenset({hung.uid}))
    assert (created(result), deleted(result)) == (["j-w-0-1"], ["j-w-0"])
    assert [(one.pod.reason, one.count) for one in result.failures] == [(STALLED, 1)]
    after = plan(2, hung, pod(0, "running", 1), pod(1), record=result.record, stalled=frozenset({hung.uid}))
    assert (after.failures, deleted(after)) == ((), ["j-w-0"]), "counted once, and deleted until it is gone"


def test_among_equals_the_first_good_end_begins_the_last_act() -> None:
    result = plan(4, pod(0, "succeeded"), pod(1), pod(2, "failed", exit_code=1), rules=EQUALS)
    assert (created(result), deleted(result), result.complete) == ([], [], False)
    ended = plan(4, pod(0, "succeeded"), pod(1, "succeeded"), record=result.record, rules=EQUALS)
    assert (created(ended), ended.complete) == ([], True)


def test_among_equals_a_slot_that_was_given_up_leaves_first_and_may_come_back() -> None:
    bad = [pod(index, "failed", exit_code=2) for index in (0, 3)]
    rules = Rules(permanent=(1, 127), equals=True)
    result = plan(4, *bad, pod(1), pod(2), rules=rules)
    assert (len(result.given_up), created(result), result.counts.active) == (2, [], 2)
    shrunk = plan(3, *bad, pod(1), pod(2), record=result.record, rules=rules)
    assert (deleted(shrunk), len(shrunk.given_up)) == ([], 1), "nobody who works is sent away for one who does not"
    grown = plan(4, *bad, pod(1), pod(2), record=shrunk.record, rules=rules)
    assert created(grown) == ["j-w-3-1"]


def test_what_lingers_after_its_role_has_ended_is_removed() -> None:
    result = plan(2, pod(0, "failed", exit_code=1, lingers=True), pod(1))
    assert (created(result), deleted(result)) == (["j-w-0-1"], ["j-w-0"])
