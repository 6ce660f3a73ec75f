"""Any history, with leaders that die and clocks that differ: what is booked is the time that passed, once."""

import math

from hypothesis import example, given
from hypothesis import strategies as st

from edl.ledger.amounts import NOTHING, Amounts, total
from edl.ledger.booking import begin, book, opened, resume, use_now
from edl.ledger.job_account import JobAccount
from edl.ledger.job_use import JobFacts, KeptLedger, observe, started
from edl.ledger.uses import HELD, Use

CREATED = 1_000_000.0
KEEP = 60.0

instances = st.integers(0, 6).map(lambda count: Amounts(count, 8.0 * count, 4.0 * count, 16.0 * count))
seconds = st.floats(0.001, 900.0)
facts = st.builds(
    JobFacts,
    waiting=instances,
    starting=instances,
    failed=instances,
    running=instances,
    members=st.sampled_from(["a", "a,b", "a,b,c"]),
    at_work=st.booleans(),
    restarting=st.booleans(),
    ended=st.booleans(),
    idle=st.none() | st.floats(0, 2000),
    moved=st.none() | st.floats(CREATED, CREATED + 50_000),
    done=st.none() | st.integers(0, 100),
    pause=st.none() | st.floats(0, 100),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("observe"), seconds, facts),
        st.tuples(st.just("crash"), seconds, st.floats(-2.0, 2.0)),
    ),
    min_size=1,
    max_size=40,
)


def booked(account: JobAccount) -> float:
    return sum(spent.seconds for spent in account.spent.values())


def of_instances(account: JobAccount) -> Amounts:
    return total(spent.amounts for spent in account.spent.values())


@given(steps)
@example([("observe", 1.0, JobFacts(running=Amounts(2), at_work=True)), ("crash", 30.0, -2.0)])
@example(
    [("observe", 5.0, JobFacts(running=Amounts(1), idle=600.0)), ("observe", 5.0, JobFacts(pause=9.0, moved=CREATED))]
)
def test_every_second_is_booked_once_over_crashes_and_clocks_that_differ(
    history: list[tuple[str, float, object]],
) -> None:
    """A leader keeps the account once a minute; a crash loses what came after, and the next clock may be off."""
    kept = written = started(CREATED)
    passed, skews, unseen, since_written = 0.0, 0.0, 0.0, 0.0
    for what, after, argument in history:
        passed += after
        if what == "observe":
            assert isinstance(argument, JobFacts)
            since_written += after
            kept = observe(kept, argument, CREATED + passed, after)
            if since_written >= KEEP:
                written, since_written = kept, 0.0
        else:
            assert isinstance(argument, float)
            skews, unseen = skews + abs(argument), unseen + after + since_written
            kept = KeptLedger(resume(written.open, written.open.until, CREATED + passed + argument), written.memory)
            written, since_written = kept, 0.0
        account = kept.open.account
        assert math.isclose(booked(account), account.seconds, rel_tol=1e-9, abs_tol=1e-6)
        assert abs(account.seconds - passed) <= 0.001 * passed + skews
        assert account.estimated <= unseen + skews + 1e-6
        assert all(spent.seconds >= -1e-6 for spent in account.spent.values())
        assert all(min(spent.amounts.instances, spent.amounts.gpus) >= -1e-6 for spent in account.spent.values())


@given(st.lists(st.tuples(seconds, facts), max_size=30))
def test_every_second_of_every_instance_is_booked_once(history: list[tuple[float, JobFacts]]) -> None:
    kept, expected, present = started(CREATED), NOTHING, NOTHING
    passed = 0.0
    for after, seen in history:
        passed += after
        expected += present * after
        kept = observe(kept, seen, CREATED + passed, after)
        present = seen.waiting + seen.starting + seen.failed + seen.running
    found = of_instances(kept.open.account)
    for name in ("instances", "gpus", "cores", "gib"):
        assert math.isclose(getattr(found, name), getattr(expected, name), rel_tol=1e-9, abs_tol=1e-6)


def test_a_clock_that_goes_back_books_nothing_and_takes_nothing() -> None:
    training = use_now(opened(CREATED), Use.TRAINING, {Use.TRAINING: Amounts(2)})
    ahead = book(training, 100)
    assert book(ahead, -50) is ahead
    assert resume(ahead, CREATED + 100, CREATED + 40) == ahead


def test_what_nobody_saw_is_estimated_and_what_was_known_not_to_change_is_not() -> None:
    kept = book(use_now(opened(CREATED), Use.TRAINING, {Use.TRAINING: Amounts(2)}), 100)
    account = resume(kept, CREATED + 700, CREATED + 730).account
    assert account.estimated == 30
    assert account.of(Use.TRAINING).seconds == 730
    assert account.of(Use.TRAINING).amounts.instances == 1460


def test_a_job_that_nobody_kept_an_account_of_has_waited() -> None:
    account = begin(CREATED, CREATED + 20).account
    assert (account.of(Use.WAITING).seconds, account.estimated) == (20, 20)


def test_goodput_is_the_useful_share_of_what_was_held() -> None:
    account = book(use_now(opened(CREATED), Use.WAITING, {Use.WAITING: Amounts(2, 2)}), 1000)
    assert account.account.goodput is None
    account = book(use_now(account, Use.STARTING, {Use.STARTING: Amounts(2, 2)}), 25)
    account = book(use_now(account, Use.TRAINING, {Use.TRAINING: Amounts(2, 2)}), 75)
    assert account.account.goodput == 0.75
    assert account.account.held.gpus == 200
    assert set(HELD) == set(Use) - {Use.WAITING}
