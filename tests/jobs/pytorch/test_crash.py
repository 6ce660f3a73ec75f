"""The operator may die after any of its writes for an ElasticJob, too: whoever comes next brings it to the same end."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.jobs.pytorch.world import PytorchWorld, elastic
from tests.jobs.world import CrashError, Data

Story = Callable[[PytorchWorld, Callable[[], None]], None]


def start_and_finish(world: PytorchWorld, live: Callable[[], None]) -> None:
    world.granted(3)
    live()
    for name in world.workers:
        world.end(name, 0)
    live()


def grow_and_shrink(world: PytorchWorld, live: Callable[[], None]) -> None:
    for size in (2, 5, 3):
        world.granted(size, leavers={"n1": 2} if size == 3 else None)
        live()


def fail_and_recover(world: PytorchWorld, live: Callable[[], None]) -> None:
    world.granted(3)
    live()
    world.end("j-worker-0", 1)
    live()
    world.end("j-worker-1", 137, "OOMKilled")
    live()
    world.end("j-worker-0-1", 1)
    world.now += 1
    live()


def fail_for_good(world: PytorchWorld, live: Callable[[], None]) -> None:
    assert world.job is not None
    world.job["spec"]["replicaSpecs"]["Worker"]["restartPolicy"] = "Never"
    world.job["spec"]["cleanPodPolicy"] = "All"
    world.granted(3)
    live()
    for name in ("j-worker-1", "j-worker-2"):
        world.end(name, 1)
        live()


def stall(world: PytorchWorld, live: Callable[[], None]) -> None:
    world.granted(2)
    live()
    world.silence = {"j-worker-0": 100.0}
    live()
    world.silence = {}


def suspend_and_resume(world: PytorchWorld, live: Callable[[], None]) -> None:
    world.granted(2)
    live()
    world.edit(lambda spec: spec.update(suspend=True))
    live()
    world.edit(lambda spec: spec.update(suspend=False))
    live()


STORIES = [start_and_finish, grow_and_shrink, fail_and_recover, fail_for_good, stall, suspend_and_resume]


def play(story: Story, crash_after: int | None) -> PytorchWorld:
    """After the crash another operator goes on. It knows the grant only if the scheduler grants it anew: the target in
    status must do, once it is written."""
    job = elastic(annotations={"edl.dev/stall-timeout": "60s"})
    world = PytorchWorld(job, crash_after=crash_after)
    world.secrets = True

    def live() -> None:
        granted = world.grant
        try:
            world.live()
        except CrashError:
            world.crash_after = None
            known = world.status.get("scale", {}).get("target")
            world.grant = None if granted is not None and known == granted.target else granted
            world.live()

    story(world, live)
    return world


def final(world: PytorchWorld) -> Data:
    """All that lasts, but for what counts writes."""
    objects: Any = copy.deepcopy(world.objects)
    for body in objects.values():
        for field in ("resourceVersion", "uid", "generation"):
            body["metadata"].pop(field, None)
    status = copy.deepcopy(world.status)
    status["scale"].pop("podSeconds", None)
    return {"status": status, "objects": {f"{kind}/{name}": body for (kind, name), body in objects.items()}}


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_crash_after_any_write_changes_nothing_in_the_end(story: Story) -> None:
    untouched = play(story, None)
    assert len(untouched.writes) > 7
    for number in range(1, len(untouched.writes) + 1):
        crashed = play(story, number)
        assert final(crashed) == final(untouched), f"after write {number}: {untouched.writes[number - 1]}"
