"""Whatever happens in whatever order: one agreed membership, sizes within the limits, nobody in two rounds.

When the disturbance ends, everybody who lives trains in one round, and no change of leader alters that.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from edl.operator.job_service.rendezvous.attendance import GRACE
from edl.operator.job_service.rendezvous.lobby import STRAGGLER
from edl.protocol.rendezvous import Training
from edl.protocol.rounds import pod_of
from tests.operator.job_service.rendezvous.lobby_world import World

PODS = "abcdef"
steps = st.one_of(
    st.tuples(
        st.sampled_from(["start", "kill", "die", "leave", "cut", "fail", "shot", "report_changed", "tell", "act"]),
        st.sampled_from(PODS),
    ),
    st.tuples(st.sampled_from(["decide", "lead anew", "reconnect", "settle", "second", "minute", "edit"]), st.just("")),
)


def take(world: World, what: str, pod: str) -> None:
    alive = [agent for agent in world.agents if pod_of(agent) == pod and agent not in world.dead]
    if what == "start":
        if not alive:
            world.start(pod, settle=False)
    elif what == "decide":
        world.decide()
    elif what == "lead anew":
        world.lead_anew()
    elif what == "reconnect":
        world.reconnect()
    elif what == "settle":
        world.settle()
    elif what == "edit":  # of the job, to wider bounds than its agents were started with
        least, most = world.allowed
        world.bounds = max(1, least - 1), most + 1
    elif what in ("second", "minute"):
        world.pass_time(1.0 if what == "second" else 60.0)
    elif alive:
        of_agent(world, what, alive[0], pod)


def of_agent(world: World, what: str, agent: str, pod: str) -> None:
    if what in ("kill", "die"):
        world.kill(pod)
        if what == "die":
            world.gone.add(pod)
    elif what == "leave":
        world.agents[agent].leave("signal")
        world.report_changed(agent)
        world.dead.add(agent)
    elif what == "cut":
        world.cut(agent)
    elif what in ("fail", "shot"):
        if isinstance(world.agents[agent].report, Training):
            world.agents[agent].fail(hard=what == "shot")
            world.report_changed(agent)
    else:
        {"report_changed": world.report_changed, "tell": world.tell, "act": world.act}[what](agent)


def check(world: World) -> None:
    numbers = [formed.number for formed in world.rounds]
    assert numbers == sorted(set(numbers)), "a number was given twice"
    reported = {formed.number: formed for formed in world.rounds}
    least, most = world.allowed
    for formed in world.rounds:
        agents = [member.agent for member in formed.members]
        assert least <= len(agents) <= most
        assert len(set(agents)) == len(agents)
    for name, state in world.agents.items():
        if state.round is not None:
            assert state.round == reported[state.number], "two believe in different rounds of one number"
            assert name in state.round


@settings(max_examples=300, deadline=None)
@given(st.lists(steps, max_size=60), st.integers(1, 3), st.integers(0, 2), st.integers(0, 6))
def test_any_order(history: list[tuple[str, str]], minimum: int, more: int, target: int) -> None:
    world = World(minimum=minimum, maximum=minimum + more, target=target)
    for what, pod in history:
        take(world, what, pod)
        check(world)
    world.reconnect()
    world.pass_time(GRACE + STRAGGLER + 10)
    check(world)
    at_rest(world)


def at_rest(world: World) -> None:
    alive = {agent for agent in world.agents if agent not in world.dead}
    training = {agent for agent in alive if isinstance(world.agents[agent].report, Training)}
    least, most = world.allowed
    size = min(len(alive), most)
    assert len(training) == (size if size >= least else 0)
    assert len({world.agents[agent].number for agent in training}) <= 1
    if training:
        assert training == {member.agent for member in world.rounds[-1].members}
        assert sorted(world.agents[agent].rank for agent in training) == list(range(len(training)))
    count = len(world.rounds)
    for _ in range(3):
        world.lead_anew()
        world.reconnect()
        world.pass_time(600)
    assert len(world.rounds) == count, "a change of leader made them regroup"
