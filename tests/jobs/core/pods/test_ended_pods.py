"""The last words of pods that ended stay in the status of every kind when the pods are gone."""

from typing import Any

import pytest

from edl.jobs.core.pods.ended_pods import LENGTH, MOST
from tests.jobs.test_second_reconcile import WORLDS
from tests.jobs.world import World

FIELDS = {
    "training": ("ended_pods", "exit_code"),
    "pytorch": ("endedPods", "exitCode"),
    "easydl": ("endedPods", "exitCode"),
}
ROLES = {"training": "trainer", "pytorch": "worker", "easydl": "worker"}


def running(kind: str) -> World:
    world = WORLDS[kind](20)
    world.live()
    return world


def victim(world: World, kind: str) -> str:
    return world.pods(ROLES[kind])[0]


def words(world: World, kind: str) -> list[dict[str, Any]]:
    return list(world.status.get(FIELDS[kind][0], ()))


@pytest.mark.parametrize("kind", WORLDS)
def test_what_a_pod_said_last_outlives_it(kind: str) -> None:
    world = running(kind)
    gone = victim(world, kind)
    world.end(gone, 3, message="Traceback\nno data")
    world.live()
    world.lose(gone)
    world.live()
    (kept,) = words(world, kind)
    assert (kept["pod"], kept[FIELDS[kind][1]], kept["message"]) == (gone, 3, "Traceback\nno data")
    assert not world.step(), "a second look writes nothing"


@pytest.mark.parametrize("kind", WORLDS)
def test_a_few_of_the_newest_are_kept_and_the_end_of_what_they_said(kind: str) -> None:
    world, gone = running(kind), []
    for number in range(MOST + 2):
        gone.append(victim(world, kind))
        world.end(gone[-1], 3, message=f"{'x' * 1000} failure {number}")
        world.live()
        world.now += 700  # so that failures are not in a row, and the next pod comes at once
    assert [one["pod"] for one in words(world, kind)] == gone[-MOST:]
    assert all(len(one["message"]) <= LENGTH for one in words(world, kind))
    assert words(world, kind)[-1]["message"].endswith(f"failure {MOST + 1}")


@pytest.mark.parametrize("kind", WORLDS)
def test_a_pod_that_ended_well_or_was_asked_to_go_says_nothing(kind: str) -> None:
    world = running(kind)
    world.edit(lambda spec: spec.update(suspend=True))
    world.live()
    assert words(world, kind) == []
