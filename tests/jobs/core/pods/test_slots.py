"""Failed or lost: the table of how a pod may end and what that means."""

from typing import Any

import pytest

from edl.api.kubernetes.core import Pod, convert
from edl.jobs.core.pods.observed_pods import ObservedPods
from edl.jobs.core.pods.slots import observe_pod, read

NOW = 1_000_000_000.0  # 2001-09-09T01:46:40Z


def pod(**status: Any) -> Pod:
    metadata = {
        "name": "j-trainer-2",
        "uid": "u",
        "labels": {"edl.dev/index": "2"},
        "creationTimestamp": "2001-09-09T01:40:00Z",
    }
    metadata.update(status.pop("metadata", {}))
    spec = {"containers": [{"name": "trainer"}, {"name": "sidecar"}], "nodeName": status.pop("node", "n1")}
    return convert({"metadata": metadata, "spec": spec, "status": status}, Pod)


def ended(code: int, reason: str = "Error", **more: Any) -> dict[str, Any]:
    times = {"startedAt": "2001-09-09T01:41:00Z", "finishedAt": "2001-09-09T01:42:00Z"}
    return {
        "phase": "Failed" if code else "Succeeded",
        "startTime": "2001-09-09T01:40:30Z",
        "containerStatuses": [
            {"name": "sidecar", "state": {"terminated": {"exitCode": 0}}},
            {"name": "trainer", "state": {"terminated": {"exitCode": code, "reason": reason, **times, **more}}},
        ],
    }


DISRUPTED = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}


@pytest.mark.parametrize(
    ("status", "state", "cause"),
    [
        pytest.param({}, "pending", "", id="no status yet"),
        pytest.param({"phase": "Running"}, "running", "", id="running"),
        pytest.param(ended(0, "Completed"), "succeeded", "", id="exit 0"),
        pytest.param(ended(1), "failed", "exit code 1", id="exit 1"),
        pytest.param(ended(137), "failed", "exit code 137", id="kill -9"),
        pytest.param(ended(137, "OOMKilled"), "failed", "OOMKilled, exit code 137", id="out of memory"),
        pytest.param(ended(128, "StartError"), "failed", "StartError, exit code 128", id="command not found"),
        pytest.param({"phase": "Failed", "reason": "Evicted"}, "lost", "Evicted", id="evicted"),
        pytest.param({"phase": "Failed", "reason": "OutOfcpu"}, "lost", "OutOfcpu", id="refused by the node"),
        pytest.param({"phase": "Failed", "reason": "NodeLost"}, "lost", "NodeLost", id="node lost"),
        pytest.param({"phase": "Failed", "reason": "DeadlineExceeded"}, "failed", "DeadlineExceeded", id="deadline"),
        pytest.param(ended(143) | DISRUPTED, "lost", "exit code 143", id="preempted"),
        pytest.param(
            ended(137, "ContainerStatusUnknown"), "lost", "ContainerStatusUnknown", id="node came back without it"
        ),
        pytest.param(
            ended(143) | {"metadata": {"deletionTimestamp": "2001-09-09T01:42:00Z"}},
            "lost",
            "exit code 143",
            id="deleted",
        ),
    ],
)
def test_how_a_pod_ended(status: dict[str, Any], state: str, cause: str) -> None:
    seen = read(pod(**status), NOW)
    assert (seen.state, seen.cause) == (state, cause)


def test_what_a_pod_that_does_not_start_says() -> None:
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    seen = read(pod(phase="Pending", containerStatuses=[{"name": "trainer", "state": waiting}]), NOW)
    assert (seen.reason, seen.message) == ("ImagePullBackOff", "no such image")

    unscheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
    seen = read(pod(phase="Pending", node="", conditions=[unscheduled]), NOW)
    assert (seen.reason, seen.message, seen.node) == ("Unschedulable", "0/3 nodes", "")


def test_the_last_lines_come_from_the_roles_container_and_are_short() -> None:
    seen = read(pod(**ended(3, message="x" * 1000 + "ValueError: no data\n")), NOW)
    assert seen.message.endswith("ValueError: no data")
    assert len(seen.message) <= 400


def test_run_time_ends_with_the_container() -> None:
    assert read(pod(**ended(1)), NOW).ran == 90
    assert read(pod(phase="Running", startTime="2001-09-09T01:46:30Z"), NOW).ran == 10
    assert read(pod(phase="Pending"), NOW).ran == 0


def test_a_failing_sidecar_or_init_container_is_named_when_the_role_itself_is_well() -> None:
    state = {"terminated": {"exitCode": 7}}
    seen = read(pod(phase="Failed", containerStatuses=[{"name": "sidecar", "state": state}]), NOW)
    assert seen.exit_code == 7
    seen = read(pod(phase="Failed", initContainerStatuses=[{"name": "fetch", "state": state}]), NOW)
    assert seen.exit_code == 7


@pytest.mark.parametrize(
    ("sidecar", "lingers"), [({"running": {}}, True), ({"waiting": {}}, True), ({"terminated": {"exitCode": 0}}, False)]
)
def test_a_pod_whose_role_has_ended_lingers_while_others_run_in_it(sidecar: dict[str, Any], lingers: bool) -> None:
    """kubelet tells of the ends of containers a second before it tells of the pod's."""
    statuses = [{"name": "trainer", "state": {"terminated": {"exitCode": 0}}}, {"name": "sidecar", "state": sidecar}]
    labels = {"name": "j-trainer-0", "labels": {"edl.dev/index": "0"}}
    seen = observe_pod(pod(metadata=labels, phase="Running", containerStatuses=statuses), "j", "trainer", NOW)
    assert seen is not None
    assert (seen.state, seen.lingers) == ("succeeded", lingers)


@pytest.mark.parametrize(
    ("name", "label", "found"),
    [
        ("j-trainer-2", "2", (2, 0)),
        ("j-trainer-2-7", "2", (2, 7)),
        ("j-trainer-2-x", "2", None),
        ("j-trainer-22", "2", None),
        ("j-trainer-2", "3", None),
        ("other", "2", None),
        ("j-trainer-2", "two", None),
        ("j-trainer-2", "", None),
    ],
)
def test_which_slot_a_pod_fills(name: str, label: str, found: tuple[int, int] | None) -> None:
    seen = observe_pod(pod(metadata={"name": name, "labels": {"edl.dev/index": label}}), "j", "trainer", NOW)
    assert (seen and (seen.index, seen.attempt)) == found


def test_seen_in_the_order_of_slots_and_attempts() -> None:
    names = ["j-trainer-2-10", "j-trainer-2", "j-trainer-2-2", "j-trainer-x"]
    labels = {"edl.dev/index": "2", "edl.dev/role": "trainer"}
    owner = {"apiVersion": "v1", "kind": "X", "name": "j", "uid": "uid-1", "controller": True}
    observed_pods = ObservedPods(
        [pod(metadata={"name": name, "labels": labels, "ownerReferences": [owner]}) for name in names],
        "j",
        "trainer",
        "uid-1",
        NOW,
    )
    assert [one.attempt for one in observed_pods.slots] == [0, 2, 10]
    assert observed_pods.unmatched == {"j-trainer-x"}
