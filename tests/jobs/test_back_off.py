"""One back-off for all kinds: a program that ends as soon as it starts is started less and less often."""

import pytest

from edl.jobs.core.grant import Grant
from tests.jobs.easydl.world import EasydlWorld, easydl, role, template
from tests.jobs.pytorch.world import PytorchWorld, elastic
from tests.jobs.world import START, World, manifest

LIMIT = 1000


def training_world() -> World:
    world = World(manifest(backoff_limit=LIMIT))
    world.grant = Grant(1)
    return world


def pytorch_world() -> World:
    world = PytorchWorld(elastic(backoffLimit=LIMIT))
    world.grant = Grant(1)
    return world


def easydl_world() -> World:
    names = ("trainer", "parameterServer", "worker", "evaluator")
    world = EasydlWorld(easydl(**{name: {"template": template(name), "restartCount": LIMIT} for name in names}))
    world.planned(1, parameter_server=role(1), worker=role(1), evaluator=role(1))
    return world


WORLDS = {
    "training": (training_world, "trainer"),
    "pytorch": (pytorch_world, "worker"),
    "easydl trainer": (easydl_world, "trainer"),
    "easydl ps": (easydl_world, "ps"),
    "easydl worker": (easydl_world, "worker"),
    "easydl evaluator": (easydl_world, "evaluator"),
}


def starts_within(world: World, name: str, seconds: float) -> int:
    """How many pods of a role are started in so long, if each one ends at once."""
    started: set[str] = set()
    while world.now < START + seconds:
        world.settle()
        new = world.pods(name)
        for pod in new:
            started.add(pod)
            world.run(pod)
            world.end(pod, 1)
        if not new:
            again = world.reconcile().requeue_at
            assert again is not None
            assert again > world.now, "a reconcile that asks for itself at once never rests"
            world.now = again
    return len(started)


@pytest.mark.case("acceptance-26")
@pytest.mark.parametrize("kind", WORLDS)
def test_a_program_that_ends_at_once_is_not_started_without_end(kind: str) -> None:
    make, name = WORLDS[kind]
    assert starts_within(make(), name, 40) == 7


@pytest.mark.parametrize("kind", WORLDS)
def test_one_that_worked_for_a_while_is_followed_at_once(kind: str) -> None:
    make, name = WORLDS[kind]
    world = make()
    world.live()
    for _ in range(5):
        world.now += 20
        world.end(world.pods(name)[0], 137)
        world.live()
        assert len(world.pods(name)) == 1
