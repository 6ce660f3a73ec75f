"""Next actions on a pod's containers: init order, sidecars, restart policies, back-off, final phases."""

import pytest

from edl.embedded.node.pod.lifecycle import (
    Backoff,
    ContainerKind,
    ContainerPhase,
    ContainerRecord,
    PodActions,
    Termination,
    final_phase,
    next_actions,
    note_ended,
    note_problem,
    note_running,
    note_starting,
)

BACKOFF = Backoff()


def record(text: str) -> ContainerRecord:
    """`kind name state`: waiting, starting, running, booting (running, not started) or an exit code."""
    kind, name, state = text.split()
    made = ContainerRecord(name, ContainerKind(kind))
    if state.isdigit():
        made.state, made.ended = ContainerPhase.ENDED, Termination(int(state), "", finished=100.0)
    elif state in ("running", "booting"):
        made.state, made.started = ContainerPhase.RUNNING, state == "running"
    else:
        made.state = ContainerPhase(state)
    return made


def decide(*texts: str, policy: str = "Always", ending: bool = False, now: float = 1000.0) -> PodActions:
    return next_actions([record(text) for text in texts], policy, ending=ending, now=now)


@pytest.mark.parametrize(
    ("containers", "policy", "start"),
    [
        (["main a waiting", "main b waiting"], "Always", ("a", "b")),
        (["init i waiting", "main a waiting"], "Always", ("i",)),
        (["init i running", "main a waiting"], "Always", ()),
        (["init i 0", "init j waiting", "main a waiting"], "Always", ("j",)),
        (["init i 0", "init j 0", "main a waiting"], "Always", ("a",)),
        (["init i 1", "main a waiting"], "OnFailure", ("i",)),
        (["init i 1", "main a waiting"], "Always", ("i",)),
        (["init i 1", "main a waiting"], "Never", ()),
        (["sidecar s waiting", "main a waiting"], "Never", ("s",)),
        (["sidecar s booting", "main a waiting"], "Never", ()),
        (["sidecar s running", "init i waiting", "main a waiting"], "Never", ("i",)),
        (["sidecar s running", "init i 0", "main a waiting"], "Never", ("a",)),
        (["sidecar s 1", "init i 0", "main a running"], "Never", ("s",)),
        (["sidecar s 0", "main a running"], "Never", ("s",)),
        (["main a 0"], "Always", ("a",)),
        (["main a 0"], "OnFailure", ()),
        (["main a 7"], "OnFailure", ("a",)),
        (["main a 7"], "Never", ()),
        (["main a starting"], "Always", ()),
        (["main a running", "main b 0"], "Always", ("b",)),
    ],
)
def test_what_is_started(containers: list[str], policy: str, start: tuple[str, ...]) -> None:
    assert decide(*containers, policy=policy).start == start


@pytest.mark.parametrize(
    ("containers", "policy", "phase"),
    [
        (["main a 0", "main b 0"], "Never", "Succeeded"),
        (["main a 0", "main b 1"], "Never", "Failed"),
        (["main a 0", "main b running"], "Never", ""),
        (["main a 0"], "OnFailure", "Succeeded"),
        (["main a 1"], "OnFailure", ""),
        (["main a 0"], "Always", ""),
        (["init i 1", "main a waiting"], "Never", "Failed"),
        (["init i 1", "main a waiting"], "OnFailure", ""),
        (["sidecar s running", "main a 0"], "Never", "Succeeded"),
        (["sidecar s 1", "main a 0"], "Never", "Succeeded"),
        (["main a waiting"], "Never", ""),
    ],
)
def test_the_final_phase(containers: list[str], policy: str, phase: str) -> None:
    assert final_phase([record(text) for text in containers], policy) == phase
    assert decide(*containers, policy=policy).final_phase == phase


@pytest.mark.parametrize(
    ("containers", "stop", "idle"),
    [
        (["sidecar s running", "sidecar t running", "main a running", "main b running"], ("a", "b"), False),
        (["sidecar s running", "sidecar t running", "main a 0", "main b 1"], ("t",), False),
        (["sidecar s running", "sidecar t 0", "main a 0"], ("s",), False),
        (["init i running", "main a waiting"], ("i",), False),
        (["sidecar s 0", "main a 0"], (), True),
        (["main a waiting"], (), True),
    ],
)
def test_sidecars_leave_last_and_in_reverse(containers: list[str], stop: tuple[str, ...], idle: bool) -> None:
    decision = decide(*containers, ending=True)
    assert (decision.stop, decision.idle, decision.start) == (stop, idle, ())


def test_a_finished_pod_stops_its_sidecars() -> None:
    assert decide("sidecar s running", "main a 0", policy="Never").stop == ("s",)


def test_what_is_stopping_is_not_stopped_twice() -> None:
    stopping = record("main a running")
    stopping.stopping = True
    assert next_actions([stopping], "Never", ending=True, now=0).stop == ()


def test_nothing_is_started_while_the_pod_ends() -> None:
    assert decide("init i 0", "main a waiting", "main b 1", ending=True).start == ()


def crash(one: ContainerRecord, at: float, ran: float = 1.0) -> None:
    note_starting(one)
    note_running(one, "id", at)
    note_ended(one, Termination(1, "Error", started=at, finished=at + ran), BACKOFF)


def test_back_off_doubles_and_starts_anew_after_a_long_run() -> None:
    one = ContainerRecord("a", ContainerKind.MAIN)
    delays = []
    for _ in range(8):
        crash(one, 1000.0)
        delays.append(one.not_before - 1001.0)
    assert delays == [0, 10, 20, 40, 80, 160, 300, 300]
    assert one.restarts == 7
    crash(one, 2000.0, ran=601)
    assert one.not_before == 2601.0


def test_back_off_is_waited_for() -> None:
    one = record("main a 1")
    one.not_before = 1010.0
    decision = next_actions([one], "Always", ending=False, now=1000.0)
    assert (decision.start, decision.requeue_at, decision.idle) == ((), 1010.0, False)
    assert next_actions([one], "Always", ending=False, now=1010.0).start == ("a",)


def test_a_container_that_cannot_be_created_spends_no_run() -> None:
    one = ContainerRecord("a", ContainerKind.MAIN)
    crash(one, 1000.0)
    for attempt in range(3):
        note_starting(one)
        note_problem(one, "CreateContainerError", "no such volume", 1100.0 + attempt)
    assert (one.state, one.restarts, one.problem) == (
        ContainerPhase.ENDED,
        0,
        ("CreateContainerError", "no such volume"),
    )
    assert one.not_before > 1102.0
    note_starting(one)
    note_running(one, "id", 1200.0)
    assert (one.restarts, one.problem, one.previous is not None) == (1, None, True)


def test_a_command_that_cannot_be_run_is_a_run() -> None:
    one = ContainerRecord("a", ContainerKind.MAIN)
    note_starting(one)
    note_ended(one, Termination(128, "StartError"), BACKOFF)
    note_starting(one)
    note_ended(one, Termination(128, "StartError"), BACKOFF)
    assert (one.restarts, one.state) == (1, ContainerPhase.ENDED)
