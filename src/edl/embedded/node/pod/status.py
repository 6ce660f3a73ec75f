"""Builds a pod's status from what the node knows, with the kubelet's reasons and messages. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from edl.api.kubernetes import timestamp
from edl.api.kubernetes.meta import EMPTY, Condition
from edl.embedded.node.pod.lifecycle import (
    ContainerKind,
    ContainerPhase,
    ContainerRecord,
    Termination,
    final_phase,
    incomplete,
    initialised,
)
from edl.embedded.node.pod.types import Container, Pod
from edl.embedded.pod_requests import RESIZE_PENDING

Status = dict[str, Any]
"""The body of a strategic merge patch: it says how lists are merged where that matters."""

_REPLACE = {"$patch": "replace"}


class PodState(msgspec.Struct, frozen=True, kw_only=True):
    """State of the pod as a whole: addresses, start time, and the reason for ending it, if it is ended."""

    pod_ip: str
    host_ip: str
    started_at: float
    now: float
    reason: str = ""
    message: str = ""
    disrupted: str = ""
    """Why the node itself took the pod down: not the pod's own failure."""
    resize_refusal: tuple[str, str] | None = None


def status_of(
    pod: Pod, records: Mapping[str, ContainerRecord], state: PodState, known: Mapping[str, Condition] = EMPTY
) -> Status:
    """`known` are the conditions as last written, by type: they date the transitions."""
    everything = list(records.values())
    phase = phase_of(everything, pod.spec.restart_policy, ended_by_node=bool(state.reason))
    status: Status = {
        "phase": phase,
        "hostIP": state.host_ip,
        "hostIPs": [_REPLACE, {"ip": state.host_ip}],
        "podIP": state.pod_ip,
        "podIPs": [_REPLACE, {"ip": state.pod_ip}],
        "startTime": timestamp.text(state.started_at),
        "conditions": _conditions(pod, everything, phase, state, known),
        "containerStatuses": [_container(pod, one, records[one.name], state.now) for one in pod.spec.containers],
    }
    if pod.spec.init_containers:
        status["initContainerStatuses"] = [
            _container(pod, one, records[one.name], state.now) for one in pod.spec.init_containers
        ]
    if phase == "Failed" and state.reason:
        status |= {"reason": state.reason, "message": state.message}
    return status


def phase_of(records: Sequence[ContainerRecord], restart_policy: str, *, ended_by_node: bool = False) -> str:
    active = any(record.active for record in records)
    final = final_phase(records, restart_policy)
    if final and not active:
        return "Failed" if ended_by_node else final
    if ended_by_node and not active:
        return "Failed"
    main = [record for record in records if record.kind is ContainerKind.MAIN]
    if not initialised(records) or any(_never_ran(record) for record in main):
        return "Pending"
    return "Running"


def _never_ran(record: ContainerRecord) -> bool:
    return (
        record.state in (ContainerPhase.WAITING, ContainerPhase.STARTING)
        and record.ended is None
        and record.previous is None
    )


# Containers


def _container(pod: Pod, container: Container, record: ContainerRecord, now: float) -> dict[str, Any]:
    state, last = _states(pod, record, now)
    resources = {
        key: dict(value)
        for key, value in (("limits", container.resources.limits), ("requests", container.resources.requests))
        if value
    }
    status: dict[str, Any] = {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "ready": record.ready
        if record.kind is not ContainerKind.INIT
        else bool(record.ended and record.ended.code == 0),
        "started": record.started,
        "restartCount": record.restarts,
        "state": state,
        "lastState": last,
    }
    if record.container_id:
        status["containerID"] = f"edl://{record.container_id}"
    if resources:
        status["resources"] = resources
        status["allocatedResources"] = resources.get("requests", {})
    return status


def _states(pod: Pod, record: ContainerRecord, now: float) -> tuple[dict[str, Any], dict[str, Any]]:
    previous = {"terminated": _terminated(record.previous)} if record.previous is not None else {}
    if record.state is ContainerPhase.RUNNING:
        return {"running": {"startedAt": timestamp.text(record.started_at)}}, previous
    if record.problem is not None:
        reason, message = record.problem
        last = {"terminated": _terminated(record.ended)} if record.ended is not None else previous
        return {"waiting": {"reason": reason, "message": message}}, last
    if record.ended is None:
        started_inits = record.kind is not ContainerKind.MAIN or not pod.spec.init_containers
        return {"waiting": {"reason": "ContainerCreating" if started_inits else "PodInitializing"}}, previous
    if record.not_before > now and _will_restart(pod, record):
        delay = record.not_before - record.ended.finished
        who = f"container={record.name} pod={pod.metadata.name}_{pod.metadata.namespace}({pod.metadata.uid})"
        waiting = {"reason": "CrashLoopBackOff", "message": f"back-off {_go_seconds(delay)} restarting failed {who}"}
        return {"waiting": waiting}, {"terminated": _terminated(record.ended)}
    return {"terminated": _terminated(record.ended)}, previous


def _will_restart(pod: Pod, record: ContainerRecord) -> bool:
    policy, code = pod.spec.restart_policy, record.ended.code if record.ended is not None else 0
    if record.kind is ContainerKind.SIDECAR:
        return True
    if record.kind is ContainerKind.INIT:
        return code != 0 and policy != "Never"
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def _go_seconds(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _terminated(ended: Termination) -> dict[str, Any]:
    state: dict[str, Any] = {
        "exitCode": ended.code,
        "reason": ended.reason,
        "startedAt": timestamp.text(ended.started) if ended.started else None,
        "finishedAt": timestamp.text(ended.finished) if ended.finished else None,
        "containerID": f"edl://{ended.container_id}" if ended.container_id else None,
        "signal": ended.signal or None,
        "message": ended.message or None,
    }
    return {key: value for key, value in state.items() if value is not None}


# Conditions


def _conditions(
    pod: Pod, records: Sequence[ContainerRecord], phase: str, state: PodState, known: Mapping[str, Condition]
) -> list[dict[str, Any]]:
    wanted = [
        {"type": "PodReadyToStartContainers", "status": _truth(phase not in ("Succeeded", "Failed"))},
        _initialized(records, phase),
        *_ready(pod, records, phase),
    ]
    if state.disrupted:
        reason = {"reason": "TerminationByKubelet", "message": state.disrupted}
        wanted.append({"type": "DisruptionTarget", "status": "True", **reason})
    if state.resize_refusal is not None:
        reason = dict(zip(("reason", "message"), state.resize_refusal, strict=True))
        wanted.append({"type": RESIZE_PENDING, "status": "True", **reason})
    found = [_dated(condition, known.get(condition["type"]), state.now) for condition in wanted]
    if state.resize_refusal is None and pod.status.condition(RESIZE_PENDING) is not None:
        found.append({"type": RESIZE_PENDING, "$patch": "delete"})
    return found


def _initialized(records: Sequence[ContainerRecord], phase: str) -> dict[str, Any]:
    missing = incomplete(records)
    if phase == "Succeeded":
        return {"type": "Initialized", "status": "True", "reason": "PodCompleted"}
    if not missing:
        return {"type": "Initialized", "status": "True"}
    message = f"containers with incomplete status: [{' '.join(missing)}]"
    return {"type": "Initialized", "status": "False", "reason": "ContainersNotInitialized", "message": message}


def _ready(pod: Pod, records: Sequence[ContainerRecord], phase: str) -> list[dict[str, Any]]:
    if phase in ("Succeeded", "Failed"):
        why = {"status": "False", "reason": "PodCompleted" if phase == "Succeeded" else "PodFailed"}
        return [{"type": "Ready", **why}, {"type": "ContainersReady", **why}]
    unready = [record.name for record in records if record.kind is not ContainerKind.INIT and not record.ready]
    if unready:
        message = f"containers with unready status: [{' '.join(unready)}]"
        why = {"status": "False", "reason": "ContainersNotReady", "message": message}
        return [{"type": "Ready", **why}, {"type": "ContainersReady", **why}]
    true = {condition.type for condition in pod.status.conditions if condition.status == "True"}
    gates = [gate.condition_type for gate in pod.spec.readiness_gates if gate.condition_type not in true]
    ready: dict[str, Any] = {"type": "Ready", "status": "True"}
    if gates:
        message = f'the status of pod readiness gate "{gates[0]}" is not "True", but False'
        ready = {"type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady", "message": message}
    return [ready, {"type": "ContainersReady", "status": "True"}]


def _truth(value: bool) -> str:
    return "True" if value else "False"


def _dated(condition: dict[str, Any], known: Condition | None, now: float) -> dict[str, Any]:
    """A transition has a time only if there was one. What is no longer said is nulled."""
    same = known is not None and known.status == condition["status"] and known.last_transition_time
    cleared = {
        field: None for field in ("reason", "message") if known and getattr(known, field) and field not in condition
    }
    return {**condition, **cleared, "lastTransitionTime": same or timestamp.text(now)}
