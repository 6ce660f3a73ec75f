"""The accounts of jobs under leaders that come and go: what is kept, how often, and what a successor makes of it."""

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edl.ledger.amounts import Amounts
from edl.ledger.cluster_account import KeptCluster
from edl.ledger.job_account import JobAccount
from edl.ledger.job_use import JobFacts, KeptLedger
from edl.ledger.uses import Use
from edl.operator.accounting import job_ledger
from edl.operator.accounting.cluster_ledger import ClusterLedger
from edl.operator.accounting.job_ledger import JobLedger
from edl.operator.reconcile.job_key import JobKey

T0 = 1_700_000_000.0
KEY = JobKey("trainingjobs.paddlepaddle.org", "ns", "j")
WAITS = JobFacts(waiting=Amounts(2, 2))
STARTS = JobFacts(starting=Amounts(2, 2))
TRAINS = JobFacts(running=Amounts(2, 2), members="a,b", at_work=True)
ENDED = JobFacts(ended=True)


class Kept:
    """The jobs' state objects, which outlive leaders. `away`: the API server does not answer."""

    def __init__(self) -> None:
        self.ledgers: dict[str, KeptLedger] = {}
        self.cluster: KeptCluster | None = None
        self.writes = 0
        self.away = False

    async def load_ledger(self, key: JobKey, uid: str) -> KeptLedger | None:
        self._answer()
        return self.ledgers.get(uid)

    async def keep_ledger(self, key: JobKey, uid: str, kept: KeptLedger) -> None:
        self._answer()
        self.writes += 1
        self.ledgers[uid] = kept

    def _answer(self) -> None:
        if self.away:
            raise ConnectionError("away")


class World:
    """A cluster with one job, and leaders one after another. `real` is the time that really passes; each machine has a
    clock of its own."""

    def __init__(self) -> None:
        self.kept, self.real, self.skew = Kept(), 0.0, 0.0
        self.facts = WAITS
        self.end: float | None = None
        self.ledger = self._leader()

    def clock(self) -> float:
        return T0 + self.real + self.skew

    def _leader(self) -> JobLedger:
        ledger = JobLedger(clock=self.clock, steady=lambda: self.real + 12_345.0, keeper=self.kept)
        ledger.lead(self.kept.cluster)
        self.cluster = ClusterLedger(clock=self.clock, steady=lambda: self.real + 12_345.0)
        return ledger

    def see(self, facts: JobFacts, end: float | None = None) -> None:
        self.facts, self.end = facts, end
        self.ledger.observe(KEY, "uid", T0, facts, end)

    async def live(self, seconds: float, *, keep_every: float = 30.0) -> None:
        """As the operator's loop does: something every second, and how far all is known every now and then."""
        until, kept = self.real + seconds, self.real
        while self.real < until:
            self.real += min(1.0, until - self.real)
            await self.ledger.keep_some()
            if self.real - kept >= keep_every and not self.kept.away:
                kept, self.kept.cluster = self.real, self.cluster.kept(self.ledger.behind())

    async def change_leader(self, away: float = 0.0, skew: float = 0.0) -> None:
        """The leader dies between two instructions; the next one looks at the job when it begins to lead."""
        self.real += away
        self.skew = skew
        self.ledger = self._leader()
        self.see(self.facts, self.end)
        await self.ledger.keep_some()

    @property
    def account(self) -> JobAccount:
        found = self.ledger.account("uid")
        assert found is not None
        return found


def seconds(account: JobAccount) -> dict[Use, float]:
    return {use: round(one.seconds, 3) for use, one in account.spent.items() if one.seconds}


def booked(account: JobAccount) -> float:
    return sum(one.seconds for one in account.spent.values())


async def test_a_job_that_does_the_same_for_hours_is_written_once_and_known_to_the_last_half_minute() -> None:
    world = World()
    world.see(TRAINS)
    await world.live(7200)
    assert world.kept.writes == 1
    await world.change_leader(away=10)
    assert world.account.estimated <= 40 + 1
    assert seconds(world.account) == {Use.TRAINING: 7210}
    assert world.account.of(Use.TRAINING).amounts == Amounts(2 * 7210, 2 * 7210)


async def test_an_account_is_written_at_most_once_a_minute_however_often_the_job_changes() -> None:
    world = World()
    for _ in range(300):
        world.see(TRAINS if world.facts is STARTS else STARTS)
        await world.live(2)
    assert world.kept.writes <= 10


async def test_an_operator_that_is_killed_in_mid_minute_costs_an_estimate_of_at_most_a_minute() -> None:
    world = World()
    world.see(WAITS)
    await world.live(90)
    world.see(TRAINS)  # it was written at 60: this is not
    await world.live(25)
    await world.change_leader(away=3)
    account = world.account
    assert math.isclose(booked(account), 118, rel_tol=0.001)
    assert 0 < account.estimated <= 60
    assert account.of(Use.WAITING).seconds == 118, "what the dead leader alone knew is taken to have gone on"
    await world.live(100)
    assert world.account.of(Use.TRAINING).seconds == 100


async def test_a_job_of_which_nothing_was_written_when_its_leader_died_is_estimated_since_it_was_made() -> None:
    world = World()
    world.see(TRAINS)
    await world.live(20)
    await world.change_leader(away=5)
    assert (world.account.seconds, world.account.estimated) == (25, 25)


async def test_leaders_whose_clocks_differ_book_the_time_that_passed() -> None:
    world = World()
    world.see(TRAINS)
    for skew in (3.0, -4.0, 0.5, -2.0, 0.0):
        await world.live(3600)
        await world.change_leader(away=2, skew=skew)
    account = world.account
    assert math.isclose(booked(account), account.seconds)
    assert math.isclose(account.seconds, world.real, rel_tol=0.001)


async def test_a_clock_that_jumps_under_a_leader_books_nothing() -> None:
    world = World()
    world.see(TRAINS)
    await world.live(100)
    world.skew = 86_400.0
    world.see(STARTS)
    await world.live(50)
    world.skew = -86_400.0
    world.see(TRAINS)
    await world.live(50)
    assert seconds(world.account) == {Use.TRAINING: 150, Use.STARTING: 50}


async def test_while_the_store_is_away_nothing_is_lost_and_it_is_written_later() -> None:
    world = World()
    world.see(WAITS)
    world.kept.away = True
    await world.live(100)
    world.see(TRAINS)
    await world.live(100)
    assert world.kept.writes == 0
    world.kept.away = False
    await world.live(30)
    assert world.kept.writes == 1
    assert seconds(world.account) == {Use.WAITING: 100, Use.TRAINING: 130}


async def test_what_a_new_leader_sees_before_it_has_read_what_was_kept_is_booked_after_it() -> None:
    world = World()
    world.see(STARTS)
    await world.live(200)
    world.kept.away = True
    await world.change_leader()
    await world.live(10)
    world.see(TRAINS)
    await world.live(10)
    assert world.ledger.account("uid") is None, "half an account is none"
    world.kept.away = False
    await world.live(60)
    assert seconds(world.account) == {Use.STARTING: 210, Use.TRAINING: 70}


async def test_a_job_that_has_ended_and_holds_nothing_is_not_booked_any_more_by_any_leader() -> None:
    world = World()
    world.see(TRAINS)
    await world.live(100)
    world.see(ENDED, end=T0 + 100)
    await world.live(500)
    assert world.account.seconds == 100
    await world.change_leader(away=1000)
    assert world.account.seconds == 100
    closed = world.ledger.close("uid")
    assert closed is not None
    assert seconds(closed) == {Use.TRAINING: 100}
    assert world.ledger.uids_of(KEY) == ()


async def test_a_job_that_goes_before_what_was_kept_was_read_has_an_empty_account() -> None:
    world = World()
    world.see(TRAINS)
    await world.live(100)
    world.kept.away = True
    await world.change_leader()
    closed = world.ledger.close("uid")
    assert closed is not None
    assert closed.seconds == 0


async def test_one_job_that_cannot_be_kept_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_ledger, "WITHIN", 0.01)
    world = World()
    hangs = asyncio.Event()

    async def keep(key: JobKey, uid: str, kept: KeptLedger) -> None:
        if uid == "stuck":
            await hangs.wait()
        world.kept.ledgers[uid] = kept

    monkeypatch.setattr(world.kept, "keep_ledger", keep)
    for uid in ("stuck", "uid"):
        world.ledger.observe(KEY, uid, T0, TRAINS)
    await world.live(200)
    assert set(world.kept.ledgers) == {"uid"}
    hangs.set()
    await world.live(300)
    assert set(world.kept.ledgers) == {"stuck", "uid"}
    assert world.ledger.account("stuck") == world.ledger.account("uid")


async def test_what_was_kept_and_can_never_be_read_is_estimated_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.see(TRAINS)
    await world.live(100)

    async def load(key: JobKey, uid: str) -> KeptLedger | None:
        raise ConnectionError("somebody else has its name")

    monkeypatch.setattr(world.kept, "load_ledger", load)
    await world.change_leader()
    await world.live(60)
    assert world.ledger.account("uid") is None
    await world.live(900)
    assert math.isclose(world.account.seconds, 1060, rel_tol=0.001)
    assert world.account.estimated == 100


steps = st.lists(
    st.one_of(
        st.tuples(st.just("see"), st.sampled_from([WAITS, STARTS, TRAINS])),
        st.tuples(st.just("live"), st.floats(0.1, 200)),
        st.tuples(st.just("lead"), st.floats(0, 100)),
        st.tuples(st.just("away"), st.booleans()),
    ),
    max_size=12,
)


@given(steps)
async def test_any_history_sums_to_the_time_that_passed_and_is_estimated_only_where_nobody_looked(
    history: list[tuple[str, object]],
) -> None:
    world, unseen = World(), 0.0
    world.see(WAITS)
    for what, argument in history:
        if what == "see" and isinstance(argument, JobFacts):
            world.see(argument)
        elif what == "live" and isinstance(argument, float):
            await world.live(argument)
        elif what == "lead" and isinstance(argument, float):
            unseen += argument + (62.0 if not world.kept.away else 1e9)
            await world.change_leader(away=argument)
        elif what == "away":
            world.kept.away = bool(argument)
            unseen += 1e9 if argument else 0.0  # what cannot be kept is lost with its leader
    world.kept.away = False
    await world.live(310)  # until it is tried again
    account = world.account
    assert math.isclose(booked(account), account.seconds, rel_tol=1e-6, abs_tol=1e-3)
    assert math.isclose(account.seconds, world.real, rel_tol=0.001, abs_tol=0.001)
    assert account.estimated <= unseen + 0.001
