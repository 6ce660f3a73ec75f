"""What jobs are booked to do, as stories: at which second they were seen how, and what each use has at the end."""

from msgspec.structs import replace

from edl.ledger.amounts import Amounts
from edl.ledger.job_use import JobFacts, KeptLedger, observe, started
from edl.ledger.uses import Use

T0 = 1000.0
WAITS = JobFacts(waiting=Amounts(2))
STARTS = JobFacts(starting=Amounts(2))
RUNS = JobFacts(running=Amounts(2), members="a,b", at_work=True)


def told(facts: JobFacts, moved: float, done: int, **more: object) -> JobFacts:
    return replace(facts, moved=T0 + moved, done=done, **more)


def story(*seen: tuple[float, JobFacts]) -> dict[Use, float]:
    """The job's own seconds of each use, from what it was seen to do from a second on."""
    kept, last = started(T0), 0.0
    for when, facts in seen:
        kept, last = observe(kept, facts, T0 + when, when - last), when
    return uses(kept)


def uses(kept: KeptLedger) -> dict[Use, float]:
    return {use: round(spent.seconds, 6) for use, spent in kept.open.account.spent.items() if spent.seconds > 1e-9}


def test_a_job_without_a_word_trains_as_soon_as_its_pods_are_at_work() -> None:
    assert story((0, WAITS), (10, STARTS), (13, RUNS), (113, RUNS)) == {
        Use.WAITING: 10,
        Use.STARTING: 3,
        Use.TRAINING: 100,
    }


def test_a_job_that_tells_of_progress_has_started_until_its_first_word() -> None:
    seen = story((0, STARTS), (5, RUNS), (20, told(RUNS, 19, 1)), (120, told(RUNS, 119, 100)))
    assert seen == {Use.STARTING: 20, Use.TRAINING: 100}


def test_a_change_of_members_lasts_until_it_tells_of_progress_again() -> None:
    more = replace(RUNS, members="a,b,c", running=Amounts(3))
    seen = story(
        (0, told(RUNS, 0, 1)), (50, told(RUNS, 49, 50)), (60, told(more, 59, 60)), (64, told(more, 63, 61)), (100, more)
    )
    assert seen == {Use.TRAINING: 60 + 36, Use.CHANGING: 4}


def test_a_pause_that_the_job_measured_itself_is_what_the_change_cost() -> None:
    more = replace(RUNS, members="a,b,c", running=Amounts(3))
    before = (0.0, told(RUNS, 0, 1)), (60.0, told(more, 59, 60))
    assert story(*before, (68, told(more, 67, 61, pause=3.0)), (100, told(more, 99, 90, pause=3.0))) == {
        Use.TRAINING: 97,
        Use.CHANGING: 3,
    }
    in_place = (
        (61.0, told(more, 60.5, 61)),
        (70.0, told(more, 69, 70, pause=2.5)),
        (100.0, told(more, 99, 90, pause=2.5)),
    )
    assert story(*before, *in_place) == {Use.TRAINING: 97.5, Use.CHANGING: 2.5}


def test_steps_that_were_lost_are_recomputed_until_there_are_new_ones() -> None:
    seen = story(
        (0, told(RUNS, 0, 0)), (100, told(RUNS, 99, 100)), (110, told(RUNS, 109, 40)), (150, told(RUNS, 149, 101))
    )
    assert seen == {Use.TRAINING: 110, Use.RECOMPUTING: 40}


def test_a_job_that_stands_still_was_idle_since_it_last_moved() -> None:
    stuck = told(RUNS, 100, 100, idle=600.0)
    assert story((0, told(RUNS, 0, 0)), (100, told(RUNS, 100, 100)), (700, stuck), (900, stuck)) == {
        Use.TRAINING: 100,
        Use.IDLE: 800,
    }


def test_a_job_whose_pods_are_down_has_failed_and_one_that_ended_holds_in_vain() -> None:
    down = JobFacts(failed=Amounts(1))
    ended = JobFacts(running=Amounts(1), ended=True)
    assert story((0, RUNS), (50, down), (70, RUNS), (80, ended), (85, ended)) == {
        Use.TRAINING: 60,
        Use.FAILED: 20,
        Use.IDLE: 5,
    }


def test_pods_beside_the_leading_role_start_a_job_and_hold_it_while_its_instances_are_gone() -> None:
    alone = JobFacts(running=Amounts(0, 0, 2), waiting=Amounts(2))
    assert story((0, WAITS), (5, alone), (10, RUNS), (60, alone), (70, RUNS)) == {
        Use.WAITING: 5,
        Use.STARTING: 5,
        Use.TRAINING: 50,
        Use.CHANGING: 10,
    }


def test_a_new_leader_to_whom_nothing_was_told_yet_takes_it_that_training_goes_on() -> None:
    kept = observe(started(T0), told(RUNS, 0, 50), T0, 0)
    kept = observe(kept, RUNS, T0 + 100, 100)
    assert kept.open.use is Use.TRAINING
