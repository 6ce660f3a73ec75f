"""Stalled: a running job of any kind that has told of progress and makes none, whatever the reason."""

from typing import Any

import pytest

from edl.jobs.core.stall import STALLED_AFTER
from tests.jobs.test_refused_edits import WORLDS
from tests.jobs.world import World


def stalled(world: World) -> tuple[str, str] | None:
    found: Any = world.condition("Stalled")
    return found and (found["status"], found["reason"])


@pytest.mark.case("acceptance-23")
@pytest.mark.parametrize("kind", WORLDS)
def test_a_running_job_without_progress_says_so_until_there_is_some(kind: str) -> None:
    world = WORLDS[kind]()
    assert stalled(world) is None, "a job that never told of progress is not judged"
    world.idle = STALLED_AFTER - 60
    world.live()
    assert stalled(world) is None
    assert world.reconcile().requeue_at == world.now + 60, "nobody else will look at a job that is silent"
    world.now, world.idle = world.now + 60, STALLED_AFTER
    world.live()
    assert stalled(world) == ("True", "NoProgress")
    assert [event for event in world.events if event.startswith("Stalled: it runs, and has made no progress for 600 s")]
    assert world.status["phase"].lower() == "running", "it is told of, and nothing else changes"
    world.now, world.idle = world.now + 600, STALLED_AFTER + 600
    assert not world.step(), "the same is no news"
    world.idle = None
    assert not world.step(), "a leader that has not heard of it yet takes nothing back"
    world.idle = 3.0
    world.live()
    assert stalled(world) == ("False", "Progress")


@pytest.mark.parametrize("kind", WORLDS)
def test_a_suspended_job_is_not_stalled(kind: str) -> None:
    world = WORLDS[kind]()
    world.idle = STALLED_AFTER
    world.live()
    world.edit(lambda spec: spec.update(suspend=True))
    world.live()
    assert stalled(world) == ("False", "NotRunning")


@pytest.mark.parametrize("kind", WORLDS)
def test_the_time_of_jobs_that_name_none_is_the_installations(kind: str) -> None:
    world = WORLDS[kind]()
    world.stalled_after, world.idle = 60.0, 59.0
    world.live()
    assert stalled(world) is None
    world.now, world.idle = world.now + 1, 60.0
    world.live()
    assert stalled(world) == ("True", "NoProgress")


@pytest.mark.parametrize(("text", "idle", "found"), [("30m", 700.0, None), ("60s", 61.0, "True"), ("0s", 10**6, None)])
def test_the_time_is_the_jobs_to_say(text: str, idle: float, found: str | None) -> None:
    world = WORLDS["training"]()
    assert world.job is not None
    world.job["metadata"]["annotations"] = {"edl.dev/stalled-after": text}
    world.idle = idle
    world.live()
    assert (stalled(world) or [None])[0] == found
