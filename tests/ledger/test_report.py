"""A period of an account that is kept by the hour: periods that follow each other add up to the whole."""

import itertools
import math

from hypothesis import given
from hypothesis import strategies as st

from edl.ledger.amounts import Amounts
from edl.ledger.booking import book, opened, use_now
from edl.ledger.job_account import JobAccount, Spent
from edl.ledger.report import PeriodLine, account_at, by_namespace, period_of
from edl.ledger.uses import Use

HOUR = 3600.0


def hourly(*uses: Use) -> list[JobAccount]:
    """A job of two GPUs that is created at 0 and does one thing an hour."""
    account, kept = opened(0.0), []
    for use in uses:
        account = book(use_now(account, use, {use: Amounts(1, 2)}), HOUR)
        kept.append(account.account)
    return kept


def test_a_period_has_what_was_booked_in_it() -> None:
    kept = hourly(Use.WAITING, Use.TRAINING, Use.TRAINING, Use.CHANGING)
    found = period_of(kept, 1.5 * HOUR, 3.5 * HOUR)
    assert found is not None
    assert found.of(Use.TRAINING) == Spent(1.5 * HOUR, Amounts(1.5 * HOUR, 3 * HOUR))
    assert found.of(Use.CHANGING).seconds == 0.5 * HOUR
    assert found.of(Use.WAITING).seconds == 0
    assert period_of(kept, 5 * HOUR, 6 * HOUR) is None
    assert period_of(kept[1:], 0, HOUR / 2) is not None


def test_nothing_is_known_of_a_job_before_it_was_made() -> None:
    late = [book(opened(100.0), 50).account]
    assert account_at(late, 50.0) is None
    assert period_of(late, 0, 1000) == late[0]


@given(st.lists(st.sampled_from(Use), min_size=1, max_size=8), st.lists(st.floats(0, 8 * HOUR), max_size=6))
def test_periods_that_follow_each_other_add_up(uses: list[Use], cuts: list[float]) -> None:
    kept = hourly(*uses)
    edges = [0.0, *sorted(cuts), 9 * HOUR]
    parts = [period_of(kept, start, end) for start, end in itertools.pairwise(edges)]
    for use in Use:
        found = sum(part.of(use).amounts.gpus for part in parts if part is not None)
        assert math.isclose(found, kept[-1].of(use).amounts.gpus, rel_tol=1e-9, abs_tol=1e-6)


def test_namespaces_are_summed_who_held_most_first() -> None:
    def line(namespace: str, name: str, gpus: float) -> PeriodLine:
        spent = {
            Use.TRAINING: Spent(10, Amounts(10, gpus)),
            Use.CHANGING: Spent(1, Amounts(1, 1)),
            Use.WAITING: Spent(5),
        }
        return PeriodLine(namespace=namespace, name=name, spent=spent, changes=1)

    small, large = line("b", "x", 3.0), [line("a", "x", 7.0), line("a", "y", 9.0)]
    first, second = by_namespace([small, *large])
    assert (first.namespace, first.jobs, first.changes, first.waited) == ("a", 2, 2, 10)
    assert first.held.gpus == 18
    assert first.goodput == 16 / 18
    assert first.lost.gpus == 2
    assert second.namespace == "b"
