"""Whatever happens to an ElasticJob, in whatever order: it comes to rest, within its size, with a Service per slot."""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.jobs.pytorch.world import PytorchWorld, elastic

Happening = Callable[[PytorchWorld, int], None]


def of_the_living(act: Callable[[PytorchWorld, str], None]) -> Happening:
    def happen(world: PytorchWorld, number: int) -> None:
        workers = world.workers
        if workers:
            act(world, workers[number % len(workers)])

    return happen


def regrant(world: PytorchWorld, number: int) -> None:
    world.granted((0, 2, 3, 4, 5)[number % 5], leavers={"n1": 1})


def suspend(world: PytorchWorld, number: int) -> None:
    world.edit(lambda spec: spec.update(suspend=number % 2 == 0))


def wait(world: PytorchWorld, number: int) -> None:
    world.now += (0.5, 5, 60, 900)[number % 4]


def stand_still(world: PytorchWorld, number: int) -> None:
    world.silence = dict.fromkeys(world.workers[: number % 3], 100.0)


def lose_the_operator(world: PytorchWorld, number: int) -> None:
    world.grant, world.silence = None, {}


HAPPENINGS: list[Happening] = [
    of_the_living(lambda world, name: world.end(name, 1)),
    of_the_living(lambda world, name: world.end(name, 137)),
    of_the_living(lambda world, name: world.end(name, 0)),
    of_the_living(lambda world, name: world.lose(name)),
    of_the_living(lambda world, name: world.set_status(name, "Running", {"running": {}}, ready=False)),
    regrant,
    suspend,
    wait,
    stand_still,
    lose_the_operator,
]


def check(world: PytorchWorld, ended: str) -> str:
    status, phase = world.status, world.status["phase"]
    assert not ended or phase == ended, "what is over stays over"
    size = 0 if (world.job or {})["spec"].get("suspend") else status["scale"].get("target", 0)
    if phase not in ("Succeeded", "Failed"):
        assert len(world.workers) <= size
        holders = {world.objects["Pod", name]["metadata"]["labels"]["edl.dev/index"] for name in world.workers}
        assert len(holders) == len(world.workers), "one pod for each slot"
        named = {name.rpartition("-")[2] for name in world.names("Service")}
        assert holders <= named
        for name in world.workers:
            labels = world.objects["Pod", name]["metadata"]["labels"]
            chosen = world.selector(f"j-worker-{labels['edl.dev/index']}")
            assert chosen.items() <= labels.items(), "a Service leads to who has the slot"
    assert (phase == "Running") <= (world.counts.get("active", 0) + world.counts.get("succeeded", 0) >= 2)
    return phase if phase in ("Succeeded", "Failed") else ""


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["Always", "OnFailure", "Never", "ExitCode"]),
    st.lists(st.tuples(st.sampled_from(range(len(HAPPENINGS))), st.integers(0, 9), st.booleans()), max_size=14),
)
def test_it_comes_to_rest(policy: str, happenings: list[tuple[int, int, bool]]) -> None:
    world = PytorchWorld(elastic(policy=policy, annotations={"edl.dev/stall-timeout": "60s"}))
    world.granted(3)
    world.live()
    ended = ""
    for which, number, rests in happenings:
        HAPPENINGS[which](world, number)
        if rests:
            world.live()
            ended = check(world, ended)
    world.live()
    check(world, ended)
    written = len(world.writes)
    world.settle()
    assert world.writes[written:] == []
