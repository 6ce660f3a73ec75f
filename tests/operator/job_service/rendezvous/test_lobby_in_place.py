"""Workers that live on: who has to start first is not waited for, and whoever trains goes on."""

from edl.protocol.rendezvous import Failed, Training, Waiting
from tests.operator.job_service.rendezvous.lobby_world import World


class Living(World):
    """Agents whose workers change members in place once they are ready; a test says when they are."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ready: set[str] = set()

    def prepare(self, *pods: str) -> None:
        for pod in pods:
            self.ready.add(self.named(pod))
            self.state(pod).live_on(ready=True)
        self.settle()

    def break_group(self, *pods: str) -> None:
        """Their workers have lost a peer."""
        for pod in pods:
            self.state(pod).wait(f"{pod}:9", in_place=True, broken=True)
        self.settle()

    def act(self, agent: str) -> bool:
        state = self.agents[agent]
        if agent not in self.ready or not isinstance(state.report, Training) or not state.stale:
            return super().act(agent) if not (state.round and state.round.in_place) else False
        if agent in self.dead:
            return False
        state.wait(f"{agent}:{state.number + 1}", in_place=True)
        self.report_changed(agent)
        return True


def living(*pods: str, minimum: int = 1) -> Living:
    world = Living(minimum=minimum, target=len(pods))
    world.start(*pods)
    world.prepare(*pods)
    assert world.members() == list(pods)
    return world


def test_a_joiner_gets_a_place_at_once_and_says_when_it_is_ready() -> None:
    world = living("a", "b")
    world.target = 3
    world.start("c")
    assert world.members() == ["a", "b", "c"]
    assert world.rounds[-1].in_place
    assert world.state("c").report == Training(2, in_place=True, ready=False)
    world.prepare("c")
    assert world.state("c").report == Training(2, in_place=True, ready=True)
    assert len(world.rounds) == 2, "that is no change"


def test_who_lost_a_peer_goes_on_without_the_joiner_that_is_not_ready() -> None:
    world = living("a", "b")
    world.target = 3
    world.start("c")
    world.kill("b")
    world.break_group("a")
    assert world.members() == ["a"], "at once: neither the joiner nor a broken connection is waited for"
    world.target = 2
    world.ready.add(world.named("c"))
    world.state("c").wait("c:2", in_place=True)
    world.settle()
    assert world.members() == ["a"], "the one that is on its way into the round is let into it first"
    world.prepare("a")
    assert world.members() == ["a", "c"]


def test_below_the_minimum_the_joiner_is_needed() -> None:
    world = living("a", "b", minimum=2)
    world.target = 3
    world.start("c")
    world.kill("b")
    world.break_group("a")
    assert len(world.rounds) == 2, "one cannot train alone"
    world.ready.add(world.named("c"))
    world.state("c").wait("c:2", in_place=True)
    world.settle()
    assert world.members() == ["a", "c"]


def test_a_failed_worker_is_its_own_fault_and_comes_back_as_a_joiner() -> None:
    world = living("a", "b")
    state = world.state("b")
    state.fail(hard=False)
    world.report_changed(world.named("b"))
    world.state("a").wait("a:2", in_place=True, broken=True)
    world.report_changed(world.named("a"))
    world.decide()
    assert world.members() == ["a"], "nobody waits for its restart"
    assert isinstance(state.report, Failed)
    world.settle()
    assert world.members() == ["a"]
    world.prepare("a")
    assert world.members() == ["a", "b"], "told of its fault, it waits"
    assert world.agents[world.named("b")].report == Training(3, in_place=True, ready=False)


def test_the_cause_of_a_failure_is_known_at_once_where_peers_live_on() -> None:
    world = living("a", "b")
    world.state("b").fail(hard=False)
    world.report_changed(world.named("b"))
    world.tell(world.named("b"))
    cause = world.state("b").failure_cause
    assert cause is not None
    assert cause.own


def test_one_that_was_asked_to_leave_hears_that_the_others_went_on() -> None:
    world = living("a", "b", "c")
    world.leaving.add("c")
    world.settle()
    assert world.members() == ["a", "b"]
    report = world.state("c").report
    assert isinstance(report, Waiting)
    assert world.state("c").out == 2


def test_all_that_start_anew_meet_as_ever() -> None:
    world = living("a", "b")
    for pod in "ab":
        world.state(pod).wait(f"{pod}:2")
        world.report_changed(world.named(pod))
    world.pass_time(1.0)
    assert sorted(world.members()) == ["a", "b"]
    assert not world.rounds[-1].in_place


def test_a_new_leader_does_not_disturb_who_trains() -> None:
    world = living("a", "b")
    world.lead_anew()
    world.reconnect()
    world.pass_time(60.0)
    assert len(world.rounds) == 1
    world.kill("b")
    world.break_group("a")
    assert world.members() == ["a"]
