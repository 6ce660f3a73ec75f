"""How a change of members was made, how long training stopped and what it cost, as the members say."""

import pytest
from prometheus_client import CollectorRegistry

from edl.operator.metrics.jobs import ChangeMetrics
from edl.protocol.rendezvous import Change, Training
from edl.protocol.rounds import RoundChange
from tests.operator.job_service.rendezvous.lobby_world import World
from tests.operator.job_service.rendezvous.test_lobby_in_place import Living, living


def switch(world: Living, pod: str, pause: float, received: int = 0) -> None:
    """Its workers have entered the present round."""
    state = world.state(pod)
    state.live_on(ready=True, change=Change(state.number, True, pause, 0, received))
    world.report_changed(world.named(pod))


def test_a_change_in_place_is_known_when_all_members_have_told_of_it() -> None:
    world = living("a", "b")
    assert world.lobby.change is None, "the first round is no change"
    world.target = 3
    world.start("c")
    world.prepare("c")
    switch(world, "a", 0.2)
    switch(world, "b", 0.3)
    assert world.lobby.change is None
    switch(world, "c", 0.0, received=19_000_000)
    assert world.lobby.change == RoundChange("run", 2, 2, 3, True, 0.3, 0, 19_000_000)
    world.lead_anew()
    assert world.lobby.change is None, "a new leader does not know what it was before"


def test_a_restart_says_how_long_there_were_no_workers_and_not_what_was_lost() -> None:
    world = World(minimum=1, target=2)
    world.start("a", "b")
    world.kill("b")
    world.now += 5.0
    world.settle()
    assert world.members() == ["a"]
    world.state("a").restarted(1.5)
    world.report_changed(world.named("a"))
    assert world.lobby.change == RoundChange("run", 2, 2, 1, False, 1.5, -1, 0)


@pytest.mark.case("attack-5")
def test_whatever_agents_tell_is_counted_as_no_less_than_nothing() -> None:
    """The attack: bytes below zero, which no counter takes: it failed, and with it the loop of the leader."""
    world = living("a", "b")
    world.target = 3
    world.start("c")
    world.prepare("c")
    for pod in "abc":
        state = world.state(pod)
        state.live_on(ready=True, change=Change(state.number, True, -9e18, -9, -(2**62)))
        world.report_changed(world.named(pod))
    change = world.lobby.change
    assert change == RoundChange("run", 2, 2, 3, True, 0.0, -1, 0)
    ChangeMetrics(CollectorRegistry()).made([change])


def test_older_agents_tell_nothing() -> None:
    world = living("a", "b")
    world.target = 3
    world.start("c")
    world.prepare("c")
    assert isinstance(world.state("a").report, Training)
    assert world.lobby.change is None
