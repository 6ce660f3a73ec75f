"""An operator that dies after any of its writes in an EasyDL job's life: the next one comes to the same end."""

from collections.abc import Callable

import pytest

from tests.jobs.easydl.world import EasydlWorld, role
from tests.jobs.world import CrashError

Story = Callable[[EasydlWorld], None]


def begin(world: EasydlWorld) -> None:
    world.live()


def follow(world: EasydlWorld) -> None:
    world.plan(parameter_server=role(2, cpu=1), worker=role(3, cpu=1), evaluator=role(1))
    world.give(3)
    world.live()


def shrink(world: EasydlWorld) -> None:
    world.plan(parameter_server=role(1, cpu=1), worker=role(1, cpu=1), evaluator=role(0))
    world.give(1)
    world.live()


def roll(world: EasydlWorld) -> None:
    world.plan(parameter_server=role(2, cpu=2), worker=role(2, cpu=2))
    world.give(2)
    world.live()


def fail(world: EasydlWorld) -> None:
    for pod in [*world.pods("ps"), *world.pods("worker")]:
        world.end(pod, 1)
    world.live()


def suspend(world: EasydlWorld) -> None:
    world.edit(lambda spec: spec.update(suspend=True))
    world.live()
    world.edit(lambda spec: spec.update(suspend=False))
    world.live()


def end(world: EasydlWorld) -> None:
    [pod] = world.pods("trainer")
    world.end(pod, 0)
    world.live()


def reported(act: Story, world: EasydlWorld, crash_after: int | None = None) -> bool:
    """One act; whether it was cut short. Whoever comes next goes on from what is there."""
    world.writes.clear()
    world.crash_after = crash_after
    try:
        act(world)
    except CrashError:
        world.crash_after = None
        world.live()
        again = [step for step in (suspend,) if act is step]
        for step in again:  # the user's second edit came after the crash
            step(world)
        return True
    return False


def outcome(world: EasydlWorld) -> tuple[object, ...]:
    pods = {name: len(world.pods(name)) for name in ("trainer", "ps", "worker", "evaluator")}
    counts = {name: one.get("failed", 0) for name, one in world.status["replicaStatuses"].items()}
    leads = {name: world.leads_to(name) in world.names("Pod") for name in world.names("Service")}
    return pods, counts, sorted(leads), world.status["phase"], world.reported().get("granted"), world.updates()


@pytest.mark.parametrize(
    "acts",
    [
        pytest.param((begin, follow), id="a plan is followed"),
        pytest.param((begin, follow, shrink), id="a plan shrinks"),
        pytest.param((begin, follow, roll), id="resources roll"),
        pytest.param((begin, follow, fail), id="pods fail"),
        pytest.param((begin, follow, suspend), id="it is suspended and resumed"),
        pytest.param((begin, follow, end), id="it ends"),
    ],
)
def test_a_crash_after_any_write_of_the_last_act_changes_nothing(acts: tuple[Story, ...]) -> None:
    def play(crash_after: int | None) -> tuple[EasydlWorld, bool, int]:
        world = EasydlWorld()
        for act in acts[:-1]:
            reported(act, world)
        crashed = reported(acts[-1], world, crash_after)
        return world, crashed, len(world.writes)

    whole, _, writes = play(None)
    assert writes > 1
    for crash_after in range(1, writes + 1):
        world, crashed, _ = play(crash_after)
        assert crashed
        assert outcome(world) == outcome(whole), crash_after
