"""The status that a node writes, in Kubernetes' own words."""

from typing import Any

import msgspec
import pytest

from edl.api.kubernetes.core import without_nulls
from edl.api.kubernetes.meta import Condition
from edl.embedded.node.pod.lifecycle import ContainerKind, ContainerPhase, ContainerRecord, Termination
from edl.embedded.node.pod.recovery import LOST, restore
from edl.embedded.node.pod.status import PodState, status_of
from edl.embedded.node.pod.types import Pod

NOW = 1_700_000_000.0
TIME = "2023-11-14T22:13:20Z"


def pod(policy: str = "Always", init: bool = False, **status: Any) -> Pod:
    main = {"name": "a", "image": "x", "resources": {"limits": {"memory": "1Gi"}, "requests": {"memory": "512Mi"}}}
    inits = [{"name": "i", "image": "x"}] if init else []
    body = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
        "spec": {"containers": [main], "initContainers": inits, "restartPolicy": policy},
        "status": status,
    }
    return msgspec.convert(body, Pod)


def describe(
    one: Pod, *records: ContainerRecord, known: dict[str, Condition] | None = None, **more: Any
) -> dict[str, Any]:
    state = PodState(pod_ip="127.16.0.9", host_ip="127.16.0.1", started_at=NOW, now=NOW, **more)
    return status_of(one, {record.name: record for record in records}, state, known or {})


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one.get("reason") or "") for one in status["conditions"]}


def running(**more: Any) -> ContainerRecord:
    inputs = {"started": True, "ready": True, "container_id": "u/a/0", "started_at": NOW, **more}
    return ContainerRecord("a", ContainerKind.MAIN, ContainerPhase.RUNNING, **inputs)


def ended(code: int, **more: Any) -> ContainerRecord:
    inputs: dict[str, Any] = {"reason": "Error" if code else "Completed", "started": NOW, "finished": NOW, **more}
    return ContainerRecord("a", ContainerKind.MAIN, ContainerPhase.ENDED, ended=Termination(code, **inputs))


def test_running_and_ready() -> None:
    status = describe(pod(), running())
    assert status["phase"] == "Running"
    assert (status["podIP"], status["hostIP"], status["startTime"]) == ("127.16.0.9", "127.16.0.1", TIME)
    assert status["containerStatuses"] == [
        {
            "name": "a",
            "image": "x",
            "imageID": "",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": TIME}},
            "lastState": {},
            "containerID": "edl://u/a/0",
            "resources": {"limits": {"memory": "1Gi"}, "requests": {"memory": "512Mi"}},
            "allocatedResources": {"memory": "512Mi"},
        }
    ]
    assert {kind: state for kind, (state, _) in conditions(status).items()} == {
        "PodReadyToStartContainers": "True",
        "Initialized": "True",
        "Ready": "True",
        "ContainersReady": "True",
    }


@pytest.mark.parametrize(
    ("policy", "record", "phase", "ready"),
    [
        ("Never", ended(0), "Succeeded", ("False", "PodCompleted")),
        ("Never", ended(3), "Failed", ("False", "PodFailed")),
        ("OnFailure", ended(0), "Succeeded", ("False", "PodCompleted")),
        ("OnFailure", ended(3), "Running", ("False", "ContainersNotReady")),
        ("Always", ended(0), "Running", ("False", "ContainersNotReady")),
        ("Always", ContainerRecord("a", ContainerKind.MAIN), "Pending", ("False", "ContainersNotReady")),
        (
            "Always",
            ContainerRecord("a", ContainerKind.MAIN, ContainerPhase.STARTING),
            "Pending",
            ("False", "ContainersNotReady"),
        ),
        ("Always", running(ready=False), "Running", ("False", "ContainersNotReady")),
    ],
)
def test_phase_and_readiness(policy: str, record: ContainerRecord, phase: str, ready: tuple[str, str]) -> None:
    status = describe(pod(policy), record)
    assert status["phase"] == phase
    assert conditions(status)["Ready"] == ready


def test_waiting_for_init_containers() -> None:
    status = describe(
        pod(init=True),
        ContainerRecord("i", ContainerKind.INIT, ContainerPhase.RUNNING, started_at=NOW),
        ContainerRecord("a", ContainerKind.MAIN),
    )
    assert status["phase"] == "Pending"
    assert conditions(status)["Initialized"] == ("False", "ContainersNotInitialized")
    assert status["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert status["initContainerStatuses"][0]["state"] == {"running": {"startedAt": TIME}}


def test_an_end_carries_code_reason_message_and_times() -> None:
    record = ended(137, message="last words", container_id="u/a/2", signal=9)
    record.restarts = 2
    status = describe(pod("Never"), record)["containerStatuses"][0]
    assert status["state"] == {
        "terminated": {
            "exitCode": 137,
            "reason": "Error",
            "startedAt": TIME,
            "finishedAt": TIME,
            "containerID": "edl://u/a/2",
            "signal": 9,
            "message": "last words",
        }
    }
    assert status["restartCount"] == 2


def test_crash_loop() -> None:
    record = ended(1)
    record.not_before = NOW + 80
    status = describe(pod(), record)["containerStatuses"][0]
    assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert status["state"]["waiting"]["message"] == "back-off 1m20s restarting failed container=a pod=p_ns(u)"
    assert status["lastState"]["terminated"]["exitCode"] == 1


def test_a_container_that_cannot_be_created_says_why() -> None:
    record = ContainerRecord("a", ContainerKind.MAIN, problem=("CreateContainerConfigError", 'configmap "c" not found'))
    status = describe(pod(), record)
    assert status["phase"] == "Pending"
    assert status["containerStatuses"][0]["state"]["waiting"] == {
        "reason": "CreateContainerConfigError",
        "message": 'configmap "c" not found',
    }


def test_ended_by_the_node() -> None:
    status = describe(pod(), ended(143), reason="DeadlineExceeded", message="too long")
    assert (status["phase"], status["reason"], status["message"]) == ("Failed", "DeadlineExceeded", "too long")
    assert describe(pod(), running(), reason="DeadlineExceeded", message="too long")["phase"] == "Running"


def test_a_transition_is_dated_only_when_there_is_one() -> None:
    known = {
        "Ready": Condition("Ready", "True", last_transition_time="2020-01-01T00:00:00Z"),
        "ContainersReady": Condition("ContainersReady", "False", "ContainersNotReady", "x", "2020-01-01T00:00:00Z"),
    }
    found = {one["type"]: one for one in describe(pod(), running(), known=known)["conditions"]}
    assert found["Ready"]["lastTransitionTime"] == "2020-01-01T00:00:00Z"
    assert found["ContainersReady"] == {
        "type": "ContainersReady",
        "status": "True",
        "reason": None,
        "message": None,
        "lastTransitionTime": TIME,
    }


def test_readiness_gates_count() -> None:
    gated = msgspec.structs.replace(
        pod(),
        spec=msgspec.convert(
            {"containers": [{"name": "a"}], "readinessGates": [{"conditionType": "lb"}]}, type(pod().spec)
        ),
    )
    assert conditions(describe(gated, running()))["Ready"] == ("False", "ReadinessGatesNotReady")
    open_ = msgspec.structs.replace(gated, status=pod(conditions=[{"type": "lb", "status": "True"}]).status)
    assert conditions(describe(open_, running()))["Ready"][0] == "True"


def test_what_was_written_can_be_restored() -> None:
    before = running(restarts=3)
    before.previous = Termination(1, "Error", "oops", NOW, NOW)
    status = describe(pod("Never"), before)
    again = msgspec.structs.replace(pod("Never"), status=msgspec.convert(without_nulls(status), type(pod().status)))
    records = {"a": ContainerRecord("a", ContainerKind.MAIN)}
    assert restore(again, records, NOW + 5) is True
    assert (records["a"].state, records["a"].restarts) == (ContainerPhase.ENDED, 3)
    assert records["a"].ended == Termination(137, "ContainerStatusUnknown", LOST, NOW, NOW + 5)
    assert records["a"].previous is not None
    assert records["a"].previous.message == "oops"


def test_what_had_ended_is_restored_as_ended() -> None:
    status = describe(pod("Never"), ended(0))
    again = msgspec.structs.replace(pod("Never"), status=msgspec.convert(without_nulls(status), type(pod().status)))
    records = {"a": ContainerRecord("a", ContainerKind.MAIN)}
    assert restore(again, records, NOW) is False
    assert records["a"].ended is not None
    assert records["a"].ended.code == 0
