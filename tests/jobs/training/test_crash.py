"""The operator may die after any of its writes: whoever comes next brings the job to the same end.

Every write of each story is found by playing it through once; then it is played again and again, with a crash after the
first write, after the second, and so on. What the dead one had in memory (the grant) is lost with it.
"""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from edl.jobs.core.grant import Grant
from tests.jobs.world import CrashError, World, manifest

Story = Callable[[World, Callable[[], None]], None]


def start_and_finish(world: World, live: Callable[[], None]) -> None:
    world.grant = Grant(2, "Started", "starts")
    live()
    for name in world.pods():
        world.end(name, 0)
    live()


def grow_and_shrink(world: World, live: Callable[[], None]) -> None:
    world.grant = Grant(2, "Started", "starts")
    live()
    world.grant = Grant(4, "Grown", "room")
    live()
    world.grant = Grant(3, "MadeRoom", "less room", leavers={"trainer": {"n1": 1}})
    live()


def fail_and_recover(world: World, live: Callable[[], None]) -> None:
    world.grant = Grant(2, "Started", "starts")
    live()
    world.end("j-trainer-0", 1)
    live()
    world.end("j-trainer-1", 137, "OOMKilled")
    live()


def fail_for_good(world: World, live: Callable[[], None]) -> None:
    assert world.job is not None
    world.job["spec"]["fault_tolerant"] = False
    world.grant = Grant(3, "Started", "starts")
    live()
    world.end("j-trainer-1", 1)
    live()


def suspend_and_resume(world: World, live: Callable[[], None]) -> None:
    world.grant = Grant(2, "Started", "starts")
    live()
    world.edit(lambda spec: spec.update(suspend=True))
    live()
    world.edit(lambda spec: spec.update(suspend=False))
    live()


STORIES = [start_and_finish, grow_and_shrink, fail_and_recover, fail_for_good, suspend_and_resume]


def play(story: Story, crash_after: int | None) -> World:
    """After the crash another operator goes on. It knows the grant only if the scheduler grants it anew: the target in
    status must do, once it is written."""
    world = World(manifest(), crash_after=crash_after)

    def live() -> None:
        granted = world.grant
        try:
            world.live()
        except CrashError:
            world.crash_after = None
            known = world.status.get("scale_status", {}).get("target")
            world.grant = None if granted is not None and known == granted.target else granted
            world.live()

    story(world, live)
    return world


def final(world: World) -> dict[str, Any]:
    """All that lasts, but for what counts writes."""
    objects = copy.deepcopy(world.objects)
    for body in objects.values():
        for field in ("resourceVersion", "uid", "generation", "annotations", "ownerReferences", "labels"):
            body["metadata"].pop(field, None)
        if body["metadata"]["name"].startswith(("j-master-", "j-pserver-")):
            body["metadata"]["name"] = ""
    status = copy.deepcopy(world.status)
    status["scale_status"].pop("pod_seconds", None)
    named = {f"{kind}/{name}" if "-x" not in name else kind for kind, name in objects}
    return {"status": status, "names": named, "objects": sorted(map(str, objects.values()))}


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_crash_after_any_write_changes_nothing_in_the_end(story: Story) -> None:
    untouched = play(story, None)
    assert len(untouched.writes) > 10
    for number in range(1, len(untouched.writes) + 1):
        crashed = play(story, number)
        assert final(crashed) == final(untouched), f"after write {number}: {untouched.writes[number - 1]}"
