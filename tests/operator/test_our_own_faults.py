"""Faults of our own code: told in the status of the job that meets them, and bounded; no other job notices."""

from typing import Any

import pytest
from msgspec.structs import replace

from edl.jobs.core.actions import add
from edl.jobs.core.children import change
from edl.jobs.core.outcome import Outcome
from edl.jobs.core.request import ReconcileRequest
from edl.jobs.training import reconcile as training
from edl.operator.reconcile.write_guard import FIRST_PAUSE, LONGEST_PAUSE, WITHIN, WRITES, WriteGuard
from tests.operator.stage import Stage, stage

DECIDE = training.reconcile


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of jobs on which our code fails."""
    names = {"bad"}

    def decide(request: ReconcileRequest[Any]) -> Outcome:
        if request.job.metadata.name in names:
            raise ZeroDivisionError("division by zero")
        return DECIDE(request)

    monkeypatch.setattr(training, "reconcile", decide)
    return names


@pytest.mark.case("attack-low-own-faults")
async def test_a_job_that_breaks_our_code_says_so_and_the_others_never_notice(broken: set[str]) -> None:
    async with stage() as scene, scene.operator() as wire:
        await scene.submit("bad")
        condition = await scene.until_condition("Valid", "False", "bad")
        assert condition["reason"] == "InternalError"
        assert "ZeroDivisionError: division by zero" in condition["message"]
        await scene.until_event("InternalError", "bad")
        await scene.submit("good")
        await scene.until_phase("running", "good")
        await wire.quiet(1.0)
        broken.clear()
        await scene.edit({"metadata": {"annotations": {"any": "edit"}}}, "bad")
        await scene.until_phase("running", "bad")
        await scene.until_condition("Valid", "True", "bad")


@pytest.mark.case("acceptance-1")
async def test_a_status_that_changes_itself_is_not_written_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    spins = iter(range(10**9))

    def decide(request: ReconcileRequest[Any]) -> Outcome:
        outcome = DECIDE(request)
        if outcome.status.phase != "running":
            return outcome
        return replace(outcome, status=replace(outcome.status, reason=f"look {next(spins)}"), urgent=True)

    monkeypatch.setattr(training, "reconcile", decide)
    async with stage() as scene, scene.operator() as wire:
        await scene.submit()
        await scene.until(lambda: _spins(scene), "its status changes itself")
        await wire.quiet(2.0)
        assert next(spins) < 4 * WRITES
        await scene.submit("other", trainer={"entrypoint": "x", "min-instance": 1})
        await scene.until(lambda: scene.get(scene.jobs, "other"), "others are looked at")


@pytest.mark.case("acceptance-1")
async def test_a_status_that_changes_with_that_of_its_own_job_is_not_written_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both are ours, so neither is a change outside."""
    spins = iter(range(10**9))

    def decide(request: ReconcileRequest[Any]) -> Outcome:
        outcome = DECIDE(request)
        made = request.observed.objects.get(("Job", "j-trainer"))
        if made is None or outcome.status.phase != "running":
            return outcome
        count = next(spins)
        patch = [add("/status/failed", count)]
        also = change("Job", made, patch, subresource="status")
        status = replace(outcome.status, reason=f"look {count}")
        return replace(outcome, status=status, actions=(*outcome.actions, also), urgent=True)

    monkeypatch.setattr(training, "reconcile", decide)
    async with stage() as scene, scene.operator() as wire:
        await scene.submit()
        await scene.until(lambda: _spins(scene), "its status changes itself")
        await wire.quiet(2.0)
        assert next(spins) < 4 * WRITES


async def _spins(scene: Stage) -> bool:
    return "look" in (await scene.status()).get("reason", "")


def test_the_guard_holds_what_is_one_too_many_back_longer_each_time() -> None:
    guard, now = WriteGuard(), 1000.0
    assert guard.held_until("a world", now) is None
    assert not any(guard.wrote(now) for _ in range(WRITES))
    assert guard.wrote(now)
    assert guard.held_until("a world", now) == now + FIRST_PAUSE
    pauses = []
    for _ in range(8):
        now = guard.held_until("a world", now) or now
        assert guard.held_until("a world", now) is None
        before = now
        guard.wrote(now)
        pauses.append((guard.held_until("a world", now) or before) - before)
    assert pauses == [min(FIRST_PAUSE * 2**times, LONGEST_PAUSE) for times in range(1, 9)]


def test_the_guard_lets_everything_pass_that_follows_a_change() -> None:
    guard, now = WriteGuard(), 1000.0
    for number in range(5 * WRITES):
        assert guard.held_until(f"world {number}", now) is None
        assert not guard.wrote(now)


def test_the_guard_lets_pass_what_time_alone_brings_about() -> None:
    guard, now = WriteGuard(), 1000.0
    for _ in range(5 * WRITES):
        now += WITHIN / WRITES
        assert guard.held_until("a world", now) is None
        assert not guard.wrote(now)
