"""A Deployment's status: counts over its ReplicaSets, and the conditions that `kubectl rollout status` waits for.
Pure.
"""

from typing import Any

from edl.api.kubernetes import timestamp
from edl.embedded.controllers.rollout import budget
from edl.embedded.controllers.types import Deployment, ReplicaSet
from edl.kube.controllers.conditions import Condition, State, find_condition, set_condition


def status_of(
    wanted: Deployment, new: ReplicaSet | None, sets: list[ReplicaSet], *, now: float
) -> tuple[dict[str, Any], float | None]:
    """The status to write, and the seconds until the progress deadline is over."""
    replicas, available = sum(one.status.replicas for one in sets), sum(one.status.available_replicas for one in sets)
    counts = {
        "observedGeneration": wanted.metadata.generation,
        "replicas": replicas,
        "updatedReplicas": new.status.replicas if new is not None else 0,
        "readyReplicas": sum(one.status.ready_replicas for one in sets),
        "availableReplicas": available,
        "unavailableReplicas": max(0, sum(one.spec.replicas for one in sets) - available),
    }
    conditions: list[Condition] = [dict(one) for one in wanted.status.conditions]
    conditions = _available(wanted, conditions, available, now)
    conditions, again = _progressing(wanted, conditions, counts, new, now)
    return {**counts, "conditions": conditions}, again


def _available(wanted: Deployment, conditions: list[Condition], available: int, now: float) -> list[Condition]:
    update = wanted.spec.strategy.rolling_update
    _, unavailable = budget(update.max_surge, update.max_unavailable, wanted.spec.replicas)
    least = wanted.spec.replicas - (unavailable if wanted.spec.strategy.type == "RollingUpdate" else 0)
    if available >= least:
        reason, message, state = "MinimumReplicasAvailable", "Deployment has minimum availability.", True
    else:
        reason, message, state = "MinimumReplicasUnavailable", "Deployment does not have minimum availability.", False
    return _set(conditions, "Available", state, reason, message, now)


def _progressing(
    wanted: Deployment, conditions: list[Condition], counts: dict[str, int], new: ReplicaSet | None, now: float
) -> tuple[list[Condition], float | None]:
    if wanted.spec.paused:
        return _set(conditions, "Progressing", None, "DeploymentPaused", "Deployment is paused", now), None
    name = new.metadata.name if new is not None else ""
    desired = wanted.spec.replicas
    if counts["updatedReplicas"] == counts["replicas"] == counts["availableReplicas"] == desired:
        text = f'ReplicaSet "{name}" has successfully progressed.'
        return _set(conditions, "Progressing", True, "NewReplicaSetAvailable", text, now), None
    before = find_condition(conditions, "Progressing")
    known = before or {}
    moved = (
        _moved(wanted, counts)
        or before is None
        or known.get("reason") in ("NewReplicaSetAvailable", "DeploymentPaused")
    )
    begun = now if moved else timestamp.seconds(known.get("lastUpdateTime") or timestamp.text(now))
    left = begun + wanted.spec.progress_deadline_seconds - now
    given_up = known.get("reason") == "ProgressDeadlineExceeded" and not moved  # only progress takes that back
    if left <= 0 or given_up:
        text = f'ReplicaSet "{name}" has timed out progressing.'
        return _set(conditions, "Progressing", False, "ProgressDeadlineExceeded", text, now), None
    text = f'ReplicaSet "{name}" is progressing.'
    return _set(conditions, "Progressing", True, "ReplicaSetUpdated", text, now, touch=moved), left


def _moved(wanted: Deployment, counts: dict[str, int]) -> bool:
    """Anything but standing still since the last status."""
    before = wanted.status
    old_pods = before.replicas - before.updated_replicas
    return (
        counts["updatedReplicas"] > before.updated_replicas
        or counts["replicas"] - counts["updatedReplicas"] < old_pods
        or counts["readyReplicas"] > before.ready_replicas
        or counts["availableReplicas"] > before.available_replicas
        or wanted.metadata.generation > before.observed_generation
    )


def _set(
    conditions: list[Condition],
    kind: str,
    state: bool | None,
    reason: str,
    message: str,
    now: float,
    *,
    touch: bool = False,
) -> list[Condition]:
    """Deployment conditions also carry the time of their last update, by which the progress deadline is counted."""
    text = timestamp.text(now)
    before = find_condition(conditions, kind) or {}
    status: State = "Unknown" if state is None else "True" if state else "False"
    changed = set_condition(conditions, kind, status, reason=reason, message=message, now=text)
    for one in changed:
        if one["type"] == kind:
            same = before.get("status") == one["status"] and before.get("reason") == reason and not touch
            one["lastUpdateTime"] = before.get("lastUpdateTime", text) if same else text
    return changed
