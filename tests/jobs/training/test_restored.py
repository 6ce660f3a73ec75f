"""A restored job whose state is not there says so where users look, until it is there."""

from typing import Any

from edl.jobs.core.grant import Grant
from tests.jobs.world import World, manifest

WAIT = "ConfigMap ns/j-tj-state is missing, which the job was restored with; apply the whole backup"


def restored() -> World:
    job = manifest()
    job["metadata"]["annotations"] = {"edl.dev/restored-from": "uid-0"}
    world = World(job)
    world.grant = Grant(2, "Started", "there is room")
    return world


def waiting() -> World:
    world = restored()
    world.state_wait = WAIT
    world.live()
    return world


def said(world: World, kind: str) -> tuple[str, str, str]:
    found: dict[str, Any] = world.condition(kind) or {}
    return found.get("status", ""), found.get("reason", ""), found.get("message", "")


def test_its_status_says_what_it_waits_for() -> None:
    world = waiting()
    assert said(world, "WaitsForState") == ("True", "NotRestored", WAIT)
    assert said(world, "Ready") == ("False", "WaitsForState", WAIT)
    assert world.status["reason"] == WAIT
    assert (world.status["scale_status"]["code"], world.status["scale_status"]["reason"]) == ("WaitsForState", WAIT)
    assert world.events.count(f"NotRestored: {WAIT}") == 1
    assert "Admitted: trainers 0 -> 2: there is room" in world.events
    assert not world.step(), "a second reconcile writes nothing"
    world.now += 3600
    assert not world.step(), "nor does time"


def test_it_goes_away_when_the_state_is_there() -> None:
    world = waiting()
    world.state_wait = ""
    world.live()
    assert said(world, "WaitsForState")[:2] == ("False", "Restored")
    assert said(world, "Ready")[:2] == ("True", "MinimumRunning")
    scale = world.status["scale_status"]
    assert (world.status["phase"], world.status.get("reason", "")) == ("running", "")
    assert (scale["code"], scale["reason"]) == ("Started", "there is room")
    assert not world.step()


def test_a_new_leader_that_has_not_looked_yet_takes_nothing_back() -> None:
    world = waiting()
    world.state_wait = None
    assert not world.step()


def test_whoever_begins_anew_waits_no_longer() -> None:
    world = waiting()
    assert world.job is not None
    world.job["metadata"]["annotations"].clear()
    world.state_wait = None
    world.live()
    assert said(world, "WaitsForState")[0] == "False"


def test_a_job_that_waits_for_its_turn_says_that_first() -> None:
    world = restored()
    world.state_wait, world.grant = WAIT, Grant(0, "NoRoom", "no room")
    world.live()
    assert world.status["scale_status"]["reason"] == "no room"
    assert said(world, "Ready")[:2] == ("False", "Queued")
    assert said(world, "WaitsForState")[0] == "True"


def test_a_job_that_has_ended_waits_for_nothing() -> None:
    world = waiting()
    world.edit(lambda spec: spec.update(backoff_limit=1))
    world.settle()
    world.end("j-trainer-0", 1)
    world.settle()
    assert world.status["phase"] == "failed"
    assert said(world, "WaitsForState")[0] == "False"


def test_a_job_that_was_never_restored_has_no_such_condition() -> None:
    world = World()
    world.grant, world.state_wait = Grant(2, "Started", "there is room"), ""
    world.live()
    assert world.condition("WaitsForState") is None
