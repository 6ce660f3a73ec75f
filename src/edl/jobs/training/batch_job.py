"""The status of the trainers' batch Job, which we manage in the place of Kubernetes' own controller.

`kubectl get job` and `kubectl wait --for=condition=complete` read it. The API server holds us to the rules of that
status: counters of the finished never fall, an end has its criterion first (SuccessCriteriaMet, FailureTarget), no pod
may be active or terminating at the end, startTime stays, and completionTime comes with Complete alone.
"""

from typing import Any, Literal

import msgspec

from edl.api.kubernetes import timestamp
from edl.api.kubernetes.core import Condition, Job, JobStatus
from edl.jobs.core.actions import Change, add
from edl.jobs.core.children import change

End = Literal["", "succeeded", "failed"]

_CRITERIA = {"succeeded": ("SuccessCriteriaMet", "Complete"), "failed": ("FailureTarget", "Failed")}


class TrainerCounts(msgspec.Struct, frozen=True):
    """The trainers as they stand."""

    active: int = 0
    ready: int = 0
    leaving: int = 0
    succeeded: int = 0
    failed: int = 0
    suspended: bool = False
    end: End = ""
    reason: str = ""
    message: str = ""


def status_change(job: Job, trainers: TrainerCounts, now: float) -> Change | None:
    """What to write, or nothing if the status is true already."""
    old = job.status
    new = _status(old, trainers, timestamp.text(now))
    if new == old:
        return None
    body = msgspec.to_builtins(new, order="deterministic")
    body["conditions"] = [_condition(condition) for condition in new.conditions]
    body["uncountedTerminatedPods"] = {}
    return change(Job.KIND, job, [add("/status", body)], subresource="status")


def _status(old: JobStatus, trainers: TrainerCounts, when: str) -> JobStatus:
    if _has(old, "Complete") or _has(old, "Failed"):
        return old
    over = bool(trainers.end) and not trainers.active and not trainers.leaving
    conditions = _conditions(old, trainers, when, over)
    started = old.start_time or (when if trainers.active or trainers.end else None)
    return JobStatus(
        active=trainers.active,
        ready=min(trainers.ready, trainers.active),
        terminating=trainers.leaving,
        succeeded=max(trainers.succeeded, old.succeeded),
        failed=max(trainers.failed, old.failed),
        start_time=started,
        completion_time=when if over and trainers.end == "succeeded" else None,
        conditions=conditions,
    )


def _conditions(old: JobStatus, trainers: TrainerCounts, when: str, over: bool) -> tuple[Condition, ...]:
    known = {condition.type: condition for condition in old.conditions}
    if trainers.suspended or "Suspended" in known:
        _set(known, "Suspended", trainers.suspended, "JobSuspended" if trainers.suspended else "JobResumed", "", when)
    if trainers.end:
        criterion, final = _CRITERIA[trainers.end]
        _set(known, criterion, True, trainers.reason, trainers.message, when)
        if over:
            _set(known, final, True, trainers.reason, trainers.message, when)
    return tuple(known.values())


def _set(known: dict[str, Condition], kind: str, holds: bool, reason: str, message: str, when: str) -> None:
    status = "True" if holds else "False"
    old = known.get(kind)
    if old is None or old.status != status:
        known[kind] = Condition(kind, status, reason, message, when)


def _has(status: JobStatus, kind: str) -> bool:
    return any(condition.type == kind and condition.status == "True" for condition in status.conditions)


def _condition(condition: Condition) -> dict[str, Any]:
    body = msgspec.to_builtins(condition)
    return dict(body, lastProbeTime=condition.last_transition_time)
