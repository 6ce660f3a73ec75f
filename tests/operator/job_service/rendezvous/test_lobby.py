"""Rounds as stories: who is in, when, and why, without a wait that nobody needs."""

import pytest

from edl.operator.job_service.rendezvous.attendance import GRACE
from edl.operator.job_service.rendezvous.failure_cause import SETTLE
from edl.operator.job_service.rendezvous.lobby import QUICK, STRAGGLER, Lobby
from edl.operator.job_service.rendezvous.members import Pods
from edl.protocol.rendezvous import Hello, Stale, Training, Waiting
from edl.protocol.rounds import Member, Round, assign_ranks
from tests.operator.job_service.rendezvous.lobby_world import World


def formed(*pods: str) -> World:
    world = World(target=len(pods))
    world.start(*pods)
    assert world.members() == list(pods)
    return world


def test_the_planned_size_starts_at_once() -> None:
    world = World(target=3)
    world.start("a", "b")
    assert world.members() == []
    world.start("c")
    assert (world.members(), world.now) == (["a", "b", "c"], 100.0)
    assert [world.state(pod).rank for pod in "abc"] == [0, 1, 2]


def test_a_minimum_starts_when_the_window_is_over() -> None:
    world = World(target=4)
    world.start("a", "b")
    world.pass_time(2.9)
    assert world.members() == []
    world.pass_time(0.2)
    assert world.members() == ["a", "b"]


def test_fewer_than_the_minimum_never_start() -> None:
    world = World(target=1)
    world.start("a")
    world.pass_time(3600)
    assert world.rounds == []
    assert world.state("a").waiting_for == "1 of at least 2 are here"


@pytest.mark.parametrize("how", ["pod gone", "pod leaving", "said so", "connection lost", "worker failed"])
def test_survivors_regroup_at_once_and_keep_their_ranks(how: str) -> None:
    world = formed("a", "b", "c", "d")
    if how == "pod gone":
        world.gone.add("b")
        world.dead.add(world.named("b"))
    elif how == "pod leaving":
        world.leaving.add("b")
        world.dead.add(world.named("b"))
    elif how == "said so":
        world.state("b").leave("signal")
    elif how == "connection lost":
        world.kill("b")
        world.pass_time(world.linger)
    else:
        world.kill("b")
        world.state("c").fail(hard=False)
    before = world.now
    world.settle()
    assert (world.members(), world.now) == (["a", "d", "c"], before)  # only the last had to move


def test_a_broken_connection_that_comes_back_is_no_reason_to_regroup() -> None:
    world = formed("a", "b")
    world.cut(world.named("a"))
    world.pass_time(0.9)
    world.reconnect()
    world.pass_time(600)
    assert len(world.rounds) == 1


def test_a_new_leader_causes_no_regroup() -> None:
    world = formed("a", "b", "c")
    for _ in range(3):
        world.lead_anew()
        world.pass_time(GRACE - 1)
        world.reconnect()
        world.pass_time(60)
    assert len(world.rounds) == 1
    assert all(isinstance(state.report, Training) for state in world.agents.values())


def test_who_does_not_come_back_to_a_new_leader_is_missed_after_the_grace() -> None:
    world = formed("a", "b", "c")
    world.dead.add(world.named("b"))
    world.lead_anew()
    world.reconnect()
    world.pass_time(GRACE - 0.1)
    assert len(world.rounds) == 1
    world.pass_time(0.2)
    assert world.members() == ["a", "c"]


@pytest.mark.case("acceptance-16")
def test_a_pod_that_has_failed_is_missed_by_a_new_leader_at_once() -> None:
    world = formed("a", "b", "c")
    world.dead.add(world.named("b"))
    world.failed.add("b")
    world.lead_anew()
    world.reconnect()
    world.settle()
    assert world.members() == ["a", "c"], "nobody waits for the grace of one who is known to be dead"


def test_a_pod_that_has_succeeded_is_not_missed_by_a_new_leader() -> None:
    world = formed("a", "b", "c")
    world.dead.add(world.named("b"))
    world.succeeded.add("b")
    world.lead_anew()
    world.reconnect()
    world.pass_time(GRACE + 1)
    assert len(world.rounds) == 1, "it has done its work; the others go on with theirs"


def test_a_leader_that_dies_between_deciding_and_telling_is_survived() -> None:
    world = World(target=2)
    world.start("a", "b", settle=False)
    assert world.decide()  # durable, and nobody was told
    world.lead_anew()
    world.reconnect()
    world.settle()
    assert (len(world.rounds), world.members()) == (1, ["a", "b"])
    assert [world.state(pod).number for pod in "ab"] == [1, 1]


def test_joiners_come_in_together_when_the_plan_is_complete() -> None:
    world = formed("a", "b")
    world.target = 4
    world.start("c")
    world.pass_time(1)
    assert len(world.rounds) == 1
    world.start("d")
    assert world.members() == ["a", "b", "c", "d"]


def test_a_joiner_waits_no_longer_than_the_window_for_others() -> None:
    world = formed("a", "b")
    world.target = 4
    world.start("c")
    world.pass_time(3)
    assert world.members() == ["a", "b", "c"]


def test_above_the_maximum_an_agent_stands_by_and_takes_the_first_free_place() -> None:
    world = formed("a", "b", "c", "d")
    world.start("e")
    world.pass_time(60)
    assert world.state("e").waiting_for == "the round has its 4 members, this one stands by"
    world.gone.add("b")
    world.dead.add(world.named("b"))
    world.settle()
    assert world.members() == ["a", "e", "c", "d"]


def test_below_the_minimum_survivors_wait_for_the_replacement_and_no_longer() -> None:
    world = formed("a", "b")
    world.kill("b")
    world.pass_time(30)
    assert len(world.rounds) == 1
    world.start("b")
    assert (world.members(), world.state("b").rank) == (["a", "b"], 1)


def test_who_was_started_before_the_job_was_edited_goes_by_what_it_says_now() -> None:
    world = formed("a", "b")
    world.bounds = 1, 4
    world.kill("b")
    world.pass_time(1)
    assert world.members() == ["a"]
    world.bounds = 3, 3
    world.kill("a")
    world.start("c", "d")
    world.pass_time(60)
    assert world.state("c").waiting_for == "2 of at least 3 are here"
    world.start("e", "f")
    assert world.members() == ["c", "d", "e"]


def test_who_was_told_otherwise_by_the_user_does_not() -> None:
    lobby = Lobby("run", 0.0)
    lobby.observe(Pods(target=2, bounds=(1, 2)))
    lobby.hello(Hello(agent="a/0", run="run", minimum=3, maximum=3), 0.0)
    lobby.report("a/0", Waiting(0, "a:1"), 0.0)
    assert lobby.decide(60.0).round is None


def test_a_new_agent_in_a_pod_shows_that_the_old_one_is_gone() -> None:
    world = formed("a", "b", "c")
    world.kill("b")
    world.start("b")  # the container started again, within the linger
    assert world.members() == ["a", "b", "c"]
    assert world.rounds[-1].members[1].agent == "b/1"


def test_a_member_that_cannot_stop_its_workers_is_left_behind_and_comes_later() -> None:
    world = formed("a", "b", "c", "d")
    slow = world.named("d")
    world.gone.add("b")
    world.dead.update({world.named("b"), slow})  # `slow` lives, but does nothing for a while
    world.pass_time(STRAGGLER - 1)
    assert len(world.rounds) == 1
    world.pass_time(2)
    assert world.members() == ["a", "c"]
    assert isinstance(world.lobby.messages([slow], world.now)[slow], Stale)
    world.dead.discard(slow)
    world.target = 3
    world.settle()
    assert world.members() == ["a", "c", "d"]


@pytest.mark.parametrize(
    ("failures", "own"),
    [
        pytest.param([("b", True)], ["b"], id="a signal is one's own"),
        pytest.param([("a", False), ("b", True)], ["b"], id="a signal outweighs who spoke first"),
        pytest.param([("b", False), ("a", False)], ["b"], id="who failed first is the cause"),
        pytest.param([("b", False)], ["b"], id="alone, after it has waited for others"),
    ],
)
def test_whose_fault_it_was(failures: list[tuple[str, bool]], own: list[str]) -> None:
    world = formed("a", "b", "c")
    for pod, hard in failures:
        world.state(pod).fail(hard=hard)
        world.report_changed(world.named(pod))
    world.now += SETTLE
    causes = {}
    for pod, _ in failures:
        world.decide()
        world.tell(world.named(pod))
        cause = world.state(pod).failure_cause
        assert cause is not None
        causes[pod] = cause.own
    assert [pod for pod in sorted(causes) if causes[pod]] == own


def test_a_failure_after_a_peers_death_is_the_peers() -> None:
    world = formed("a", "b", "c")
    world.state("a").fail(hard=False)
    world.report_changed(world.named("a"))
    world.decide()
    world.tell(world.named("a"))
    assert world.state("a").failure_cause is None  # too early to say
    world.kill("b")
    world.decide()
    world.tell(world.named("a"))
    cause = world.state("a").failure_cause
    assert cause is not None
    assert (cause.own, cause.reason) == (
        False,
        "the connection of b/0 broke and another's worker failed",
    )


def fail_together(world: World) -> list[str]:
    """All workers fail; the pods whose fault it was."""
    for pod in world.members():
        world.state(pod).fail(hard=False)
        world.report_changed(world.named(pod))
    world.decide()
    for pod in world.members():
        world.tell(world.named(pod))
    return [pod for pod in world.members() if (cause := world.state(pod).failure_cause) and cause.own]


def test_a_script_that_fails_again_and_again_fails_for_everybody() -> None:
    world = formed("a", "b", "c")
    assert fail_together(world) == ["a"]
    world.settle()
    assert fail_together(world) == ["a", "b", "c"], "it is not for one of them that the others start in vain"
    world.settle()
    world.pass_time(QUICK + 1)
    assert fail_together(world) == ["a"], "after a while of training it is another matter"


def test_the_end_is_agreed_and_latecomers_are_told() -> None:
    world = formed("a", "b")
    for pod in "ab":
        assert not world.state(pod).over
        world.state(pod).finish()
        world.settle()
    assert world.state("a").over
    world.lead_anew()
    world.start("c")
    assert world.state("c").over
    assert len(world.rounds) == 1


def test_a_finished_member_that_goes_away_breaks_nothing() -> None:
    world = formed("a", "b")
    world.state("a").finish()
    world.settle()
    world.kill("a")
    world.gone.add("a")
    world.pass_time(60)
    assert len(world.rounds) == 1
    world.state("b").finish()
    world.settle()
    assert world.state("b").over


def test_what_is_left_to_do_after_a_peer_finished_needs_no_minimum() -> None:
    world = formed("a", "b")
    world.state("a").finish()
    world.settle()
    world.state("b").fail(hard=False)
    world.pass_time(SETTLE + 1)
    assert world.members() == ["b"]


@pytest.mark.parametrize(
    ("before", "agents", "after"),
    [
        pytest.param("", "abc", "abc", id="first come first"),
        pytest.param("abcd", "abd", "abd", id="the last moves into the gap"),
        pytest.param("abcd", "bcd", "dbc", id="rank 0 is filled"),
        pytest.param("ab", "abxy", "abxy", id="joiners behind"),
        pytest.param("abcd", "acdx", "axcd", id="a joiner takes the gap"),
        pytest.param("abcdef", "f", "f", id="the only one"),
    ],
)
def test_seats(before: str, agents: str, after: str) -> None:
    previous = Round("r", 1, tuple(Member(agent, "") for agent in before)) if before else None
    members = assign_ranks(previous, list(agents), dict.fromkeys(agents, ""))
    assert "".join(member.agent for member in members) == after
