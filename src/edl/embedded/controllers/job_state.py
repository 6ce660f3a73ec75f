"""Next state of a Job: the pods to count, create, delete and release, and the status to write. Pure."""

from collections.abc import Sequence
from typing import Any

import msgspec

from edl.api.kubernetes import indexes, timestamp
from edl.api.kubernetes.pod_network import Pod
from edl.embedded.controllers.types import Job
from edl.kube.controllers.conditions import Condition, set_condition

TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
_LONGEST_BACKOFF = 600.0


class Decision(msgspec.Struct):
    status: dict[str, Any]
    create: list[int | None] = msgspec.field(default_factory=list)
    """One entry per pod to make: its index, or None."""
    delete: list[Pod] = msgspec.field(default_factory=list)
    release: set[str] = msgspec.field(default_factory=set)
    """Uids of pods that are counted and may go."""
    expired: bool = False
    """Finished for so long that the Job itself goes."""
    requeue_after: float | None = None


class _Count(msgspec.Struct):
    succeeded: int
    failed: int
    uncounted_succeeded: list[str]
    uncounted_failed: list[str]

    @property
    def all_succeeded(self) -> int:
        return self.succeeded + len(self.uncounted_succeeded)

    @property
    def all_failed(self) -> int:
        return self.failed + len(self.uncounted_failed)


def decide(job: Job, pods: Sequence[Pod], *, now: float, backoff: float) -> Decision:
    count = _count(job, pods)
    active = [pod for pod in pods if pod.active]
    completed = _completed(job, pods) if job.spec.completion_mode == "Indexed" else set()
    conditions = [dict(one) for one in job.status.conditions]
    ended = _ended(job) or _end(job, count, completed, active, now)
    decision = Decision({})
    decision.release = {*count.uncounted_succeeded, *count.uncounted_failed}
    if ended is not None:
        decision.delete = active
        conditions = _finish(conditions, ended, pods, count, now)
        decision.expired, decision.requeue_after = _expiry(job, conditions, now)
    elif job.spec.suspend:
        decision.delete = active
        conditions = _set(conditions, "Suspended", True, "JobSuspended", "Job suspended", now)
    else:
        if any(one["type"] == "Suspended" for one in conditions):
            conditions = _set(conditions, "Suspended", False, "JobResumed", "Job resumed", now)
        _fill(job, pods, count, completed, active, decision, now, backoff)
    decision.status = _status(job, pods, count, completed, conditions, decision, now)
    return decision


# Counting


def _count(job: Job, pods: Sequence[Pod]) -> _Count:
    """What was uncounted and has been released since, moves into the counters; what has newly finished is uncounted."""
    uncounted = job.status.uncounted_terminated_pods
    held = {pod.metadata.uid: pod for pod in pods if TRACKING in pod.metadata.finalizers}
    done = {uid for uid in (*uncounted.succeeded, *uncounted.failed) if uid not in held}
    count = _Count(
        job.status.succeeded + sum(uid in done for uid in uncounted.succeeded),
        job.status.failed + sum(uid in done for uid in uncounted.failed),
        [uid for uid in uncounted.succeeded if uid in held],
        [uid for uid in uncounted.failed if uid in held],
    )
    known = {*count.uncounted_succeeded, *count.uncounted_failed}
    for uid, pod in held.items():
        if uid in known:
            continue
        if pod.status.phase == "Succeeded":
            count.uncounted_succeeded.append(uid)
        elif pod.status.phase == "Failed" or (pod.terminating and not pod.spec.node_name):
            count.uncounted_failed.append(uid)
    return count


def _completed(job: Job, pods: Sequence[Pod]) -> set[int]:
    known = set(indexes.parse(job.status.completed_indexes))
    return known | {index for pod in pods if pod.status.phase == "Succeeded" and (index := index_of(pod)) is not None}


def index_of(pod: Pod) -> int | None:
    text = pod.metadata.annotations.get(INDEX, "")
    return int(text) if text.isdigit() else None


# Ending


def _ended(job: Job) -> tuple[bool, str, str] | None:
    """How it ended, if an earlier reconcile has decided that: success, reason, message."""
    for kind in ("Failed", "FailureTarget", "Complete", "SuccessCriteriaMet"):
        condition = job.condition(kind)
        if condition is not None:
            good = kind in ("Complete", "SuccessCriteriaMet")
            return good, condition.get("reason", ""), condition.get("message", "")
    return None


def _end(
    job: Job, count: _Count, completed: set[int], active: Sequence[Pod], now: float
) -> tuple[bool, str, str] | None:
    spec = job.spec
    if count.all_failed > spec.backoff_limit:
        return False, "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    restarting = [pod for pod in active if pod.spec.restart_policy == "OnFailure"]
    if restarting and sum(pod.restarts for pod in restarting) > spec.backoff_limit:
        return False, "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    begun = timestamp.seconds(job.status.start_time) if job.status.start_time and not spec.suspend else None
    if spec.active_deadline_seconds is not None and begun is not None and now >= begun + spec.active_deadline_seconds:
        return False, "DeadlineExceeded", "Job was active longer than specified deadline"
    reached = "CompletionsReached", "Reached expected number of succeeded pods"
    if spec.completion_mode == "Indexed":
        return (True, *reached) if len(completed) >= (spec.completions or 0) else None
    if spec.completions is None:
        return (True, *reached) if count.all_succeeded and not active else None
    return (True, *reached) if count.all_succeeded >= spec.completions else None


def _finish(
    conditions: list[Condition], ended: tuple[bool, str, str], pods: Sequence[Pod], count: _Count, now: float
) -> list[Condition]:
    """First the decision, then, when no pod is left to stop or to count, the end."""
    good, reason, message = ended
    conditions = _set(conditions, "SuccessCriteriaMet" if good else "FailureTarget", True, reason, message, now)
    left = any(pod.active or pod.terminating for pod in pods if not pod.finished)
    if left or count.uncounted_succeeded or count.uncounted_failed:
        return conditions
    return _set(conditions, "Complete" if good else "Failed", True, reason, message, now)


def _expiry(job: Job, conditions: list[Condition], now: float) -> tuple[bool, float | None]:
    ttl = job.spec.ttl_seconds_after_finished
    end = next((one for one in conditions if one["type"] in ("Complete", "Failed") and one["status"] == "True"), None)
    if ttl is None or end is None:
        return False, None
    left = timestamp.seconds(end["lastTransitionTime"]) + ttl - now
    return left <= 0, max(left, 0.0) if left > 0 else None


# Working


def _fill(
    job: Job,
    pods: Sequence[Pod],
    count: _Count,
    completed: set[int],
    active: Sequence[Pod],
    decision: Decision,
    now: float,
    backoff: float,
) -> None:
    """As many pods as may run at once; after a failure not before the delay is over."""
    spec = job.spec
    terminating = sum(pod.terminating and not pod.finished for pod in pods)
    if spec.completion_mode == "Indexed":
        wanted = min(spec.parallelism, (spec.completions or 0) - len(completed))
    elif spec.completions is None:
        wanted = 0 if count.all_succeeded else spec.parallelism
        wanted = max(wanted, min(len(active), spec.parallelism))
    else:
        wanted = min(spec.parallelism, spec.completions - count.all_succeeded)
    if len(active) > wanted:
        decision.delete = sorted(active, key=lambda pod: (pod.ready, pod.metadata.creation_timestamp or ""))[wanted:]
    delay = _delay(pods, count, now, backoff)
    missing = wanted - len(active) - terminating
    if missing > 0 and delay > 0:
        decision.requeue_after = delay
    elif missing > 0:
        decision.create = _next(job, active, pods, completed, missing)
    deadline = spec.active_deadline_seconds
    if deadline is not None:
        begun = timestamp.seconds(job.status.start_time) if job.status.start_time else now
        left = max(0.01, begun + deadline - now)
        decision.requeue_after = min(left, decision.requeue_after or left)


def _next(job: Job, active: Sequence[Pod], pods: Sequence[Pod], completed: set[int], missing: int) -> list[int | None]:
    if job.spec.completion_mode != "Indexed":
        return [None] * missing
    taken = completed | {index for pod in pods if not pod.finished and (index := index_of(pod)) is not None}
    free = [index for index in range(job.spec.completions or 0) if index not in taken]
    return [*free[:missing]]


def _delay(pods: Sequence[Pod], count: _Count, now: float, backoff: float) -> float:
    failures = [pod for pod in pods if pod.status.phase == "Failed"]
    if not failures or not count.all_failed:
        return 0.0
    last = max(_finished(pod, now) for pod in failures)
    if any(pod.status.phase == "Succeeded" and _finished(pod, now) > last for pod in pods):
        return 0.0
    return last + min(_LONGEST_BACKOFF, backoff * 2.0 ** min(len(failures) - 1, 20)) - now


def _finished(pod: Pod, now: float) -> float:
    states = [status.state.terminated for status in pod.status.container_statuses]
    times = [timestamp.seconds(state.finished_at) for state in states if state is not None and state.finished_at]
    return max(times, default=now)


# Status


def _status(
    job: Job,
    pods: Sequence[Pod],
    count: _Count,
    completed: set[int],
    conditions: list[Condition],
    decision: Decision,
    now: float,
) -> dict[str, Any]:
    doomed = {pod.metadata.uid for pod in decision.delete}
    active = [pod for pod in pods if pod.active and pod.metadata.uid not in doomed]
    suspended = job.spec.suspend and not any(one["type"] in ("Complete", "Failed") for one in conditions)
    begun = None if suspended else job.status.start_time or timestamp.text(now)
    complete = next((one for one in conditions if one["type"] == "Complete"), None)
    return {
        "active": len(active) + len(decision.create),
        "ready": sum(pod.ready for pod in active),
        "terminating": sum(pod.terminating and not pod.finished for pod in pods) + len(doomed),
        "succeeded": count.succeeded,
        "failed": count.failed,
        "completedIndexes": indexes.text(completed) or None,
        "startTime": begun,
        "completionTime": complete["lastTransitionTime"] if complete is not None else None,
        "conditions": conditions or None,
        "uncountedTerminatedPods": {"succeeded": count.uncounted_succeeded, "failed": count.uncounted_failed},
    }


def _set(conditions: list[Condition], kind: str, state: bool, reason: str, message: str, now: float) -> list[Condition]:
    text = timestamp.text(now)
    known = {one["type"]: one for one in conditions}
    changed = set_condition(conditions, kind, "True" if state else "False", reason=reason, message=message, now=text)
    for one in changed:
        if one["type"] == kind:
            one["lastProbeTime"] = known.get(kind, {}).get("lastProbeTime", text)
    return changed
