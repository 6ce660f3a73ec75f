"""The status of a PyTorch ElasticJob and its events, in the words of design 004."""

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec.structs import asdict, replace

from edl.api import timestamp
from edl.api.annotations import LABEL_ROLE
from edl.api.roles import JobView
from edl.api.status import ElasticStatus, ReplicaCounts, RootCause, Scale
from edl.jobs.children import LABEL_UID
from edl.jobs.conditions import Conditions
from edl.jobs.failures import STALLED, Failure
from edl.jobs.intents import Create, Delete, Intent
from edl.jobs.judgement import (
    Circumstances,
    condition_events,
    failure_words,
    judge,
    scale_events,
    some,
    trouble_words,
)
from edl.jobs.outcome import JobEvent
from edl.jobs.podset import Counts, PodSetPlan
from edl.jobs.pytorch_environment import WORKER
from edl.jobs.record import to_status
from edl.jobs.slots import SlotPod

ROLE = "Worker"
"""As replicaStatuses and messages spell it."""
EACH = 4  # so many pods or Services have an event each; more are told of in one

Phase = Literal["Created", "Pending", "Running", "Scaling", "Restarting", "Succeeded", "Failed"]


class Verdict(msgspec.Struct, frozen=True):
    """How the job ends. `words` are those of the condition."""

    phase: Literal["Succeeded", "Failed"]
    code: str
    words: str
    cause: RootCause | None = None


class Picture(msgspec.Struct, frozen=True):
    """One look at a job, complete: what the status is drawn from."""

    view: JobView
    scale: Scale
    """With the present grant in it."""
    plan: PodSetPlan
    size: int
    """What it may have now: nothing while it waits or is suspended."""
    resized: bool
    found: Circumstances
    attempt: int = 0
    trouble: SlotPod | None = None
    """A pod that does not come up, with its reason."""
    verdict: Verdict | None = None
    decided: bool = True
    """The scheduler has looked at it."""
    may_reword: bool = False
    """Words alone were not renewed for a while."""

    @property
    def minimum(self) -> int:
        return self.view.lead.min

    @property
    def working(self) -> int:
        return self.plan.counts.active + self.plan.counts.succeeded

    @property
    def settled(self) -> bool:
        return self.plan.leaving == 0 and self.working >= self.size - len(self.plan.given_up)


def draw(old: ElasticStatus, picture: Picture, now: float) -> ElasticStatus:
    view, plan, when = picture.view, picture.plan, timestamp.text(now)
    anew = picture.attempt != old.attempt
    reached = picture.size > 0 and ((old.minimum_reached and not anew) or picture.working >= picture.minimum)
    phase = next_phase(old, picture, reached)
    conditions = Conditions(old.conditions, generation=view.generation, now=now)
    _judge(conditions, picture, phase)
    memory = to_status(WORKER, plan.record)
    return ElasticStatus(
        phase=phase,
        reason=old.reason if _still_so(old, picture, phase) else _reason(picture),
        conditions=conditions.result(),
        replica_statuses={ROLE: counted(replace(plan.counts, desired=0) if picture.verdict else plan.counts)},
        scale=replace(
            picture.scale,
            current=picture.working,
            pod_seconds=plan.record.seconds,
            selector=f"{LABEL_UID}={view.uid},{LABEL_ROLE}={WORKER}",
        ),
        root_cause=(picture.verdict.cause if picture.verdict is not None else None) or old.root_cause,
        slots=(memory,) if memory is not None else (),
        attempt=picture.attempt,
        minimum_reached=reached,
        start_time=None if view.suspend else old.start_time or (when if picture.size > 0 else None),
        completion_time=old.completion_time or (when if picture.verdict is not None else None),
        observed_generation=view.generation,
    )


def counted(counts: Counts) -> ReplicaCounts:
    return ReplicaCounts(**asdict(counts))


def next_phase(old: ElasticStatus, picture: Picture, reached: bool) -> Phase:
    if picture.verdict is not None:
        return picture.verdict.phase
    if not picture.decided:
        return "Created"
    if not reached:
        return "Pending"
    restarting = bool(picture.plan.failures) or (old.phase == "Restarting" and not picture.settled)
    if restarting or (picture.working < picture.minimum and not picture.resized):
        return "Restarting"
    # A worker that was lost and is being replaced is no change of size: a running job keeps running.
    scaling = picture.resized or (old.phase != "Running" and not picture.settled)
    return "Scaling" if scaling else "Running"


def _judge(conditions: Conditions, picture: Picture, phase: Phase) -> None:
    name = picture.view.name
    conditions.set("Created", True, "ElasticJobCreated", f"job {name} is created.")
    judge(conditions, picture.found)
    if picture.verdict is not None:
        _end(conditions, picture.verdict)
        return
    if phase in ("Running", "Scaling", "Restarting") and picture.working >= picture.minimum:
        conditions.set("Running", True, "ElasticJobRunning", f"ElasticJob {name} is running.")
    else:
        conditions.clear("Running", f"ElasticJob{phase}", _reason(picture))
    if picture.plan.failures:
        conditions.set("Restarting", True, "ElasticJobRestarting", restarting_words(name, len(picture.plan.failures)))
    elif phase == "Restarting":
        _keep_restarting(conditions, picture)
    else:
        conditions.clear("Restarting", f"ElasticJob{phase}", _reason(picture))


def _keep_restarting(conditions: Conditions, picture: Picture) -> None:
    if not conditions.is_true("Restarting"):
        lost = picture.minimum - picture.working
        words = f"ElasticJob {picture.view.name} is restarting because {lost} Worker replica(s) are missing."
        conditions.set("Restarting", True, "ElasticJobRestarting", words)


def _end(conditions: Conditions, verdict: Verdict) -> None:
    """What was said before is no longer so, and goes on saying what it said: that is how 004 shows it."""
    for kind in ("Running", "Restarting"):
        said = conditions.get(kind)
        if said is not None:
            conditions.clear(kind, said.reason, said.message)
    conditions.set(verdict.phase, True, verdict.code, verdict.words)


def restarting_words(job: str, count: int) -> str:
    return f"ElasticJob {job} is restarting because {count} Worker replica(s) failed."


def _still_so(old: ElasticStatus, picture: Picture, phase: Phase) -> bool:
    """The reason of a restart stays until it is over; trouble with a pod is said anew only if it is another one."""
    if phase != old.phase or not old.reason or picture.verdict is not None:
        return False
    if phase == "Restarting":
        return not picture.plan.failures
    trouble = picture.trouble
    known = trouble is not None and old.reason.startswith(f"pod {trouble.name}: {trouble.reason}")
    return known and not picture.may_reword


def _reason(picture: Picture) -> str:
    """Why it is in its phase. Numbers would change all the time; they are in scale and replicaStatuses."""
    if picture.verdict is not None:
        if picture.verdict.cause is None:
            return picture.verdict.words
        return f"{picture.verdict.words} First: {failure_words(WORKER, picture.verdict.cause)}"
    if picture.view.suspend:
        return "suspended by spec.suspend"
    if picture.size == 0:
        return picture.scale.reason
    if picture.trouble is not None:
        return trouble_words(picture.trouble)
    if picture.plan.failures:
        return failure_words(WORKER, cause_of(picture.plan.failures[0].pod))
    return "" if picture.working >= picture.minimum else "workers are starting"


def cause_of(pod: SlotPod) -> RootCause:
    return RootCause(pod=pod.name, exit_code=pod.exit_code, reason=pod.reason, message=pod.message)


def told(old: ElasticStatus, new: ElasticStatus, picture: Picture) -> list[JobEvent]:
    """The events of a step from one status to the next. The same step tells the same events."""
    view, plan = picture.view, picture.plan
    events = [
        *scale_events("workers", old.scale, new.scale),
        *condition_events(old.conditions, new.conditions),
        *(_failure_event(view, failure) for failure in plan.failures),
    ]
    if plan.failures and picture.verdict is None:
        words = restarting_words(view.name, len(plan.failures))
        events.append(JobEvent("Warning", "ElasticJobRestarting", words))
    if picture.verdict is not None:
        events.append(JobEvent("Normal", picture.verdict.code, picture.verdict.words))
    elif new.phase == "Running" != old.phase:
        events.append(JobEvent("Normal", "ElasticJobRunning", f"ElasticJob {view.name} is running."))
    return events


def _failure_event(view: JobView, failure: Failure) -> JobEvent:
    pod = failure.pod
    where = f"{view.namespace}.{pod.name}"
    if pod.reason == STALLED:
        fate = "is given up" if failure.final else "is replaced"
        return JobEvent("Warning", "WorkerStalled", f"Pod: {where} made no progress ({pod.message}); it {fate}")
    if pod.exit_code is None:
        return JobEvent("Warning", "WorkerFailed", f"Pod: {where} failed: {pod.cause or 'no reason was given'}")
    return JobEvent("Normal", "ExitedWithCode", f"Pod: {where} exited with code {pod.exit_code}")


def done(intents: Sequence[Intent]) -> list[JobEvent]:
    """What carrying them out is worth telling."""
    events: list[JobEvent] = []
    for deed, verb, past in ((Create, "Create", "Created"), (Delete, "Delete", "Deleted")):
        for kind in ("Pod", "Service"):
            names = [intent.name for intent in intents if isinstance(intent, deed) and intent.kind == kind]
            told = names if len(names) <= EACH else [some(names)]
            events += [JobEvent("Normal", f"Successful{verb}{kind}", f"{past} {kind.lower()}: {one}") for one in told]
    return events


def decided(status: ElasticStatus, destroys: bool) -> object:
    """The part of a status that a successor must know before we act on it.

    What slots have been through beyond that is read from their pods, which are there until something is destroyed.
    """
    scale = status.scale or Scale()
    slots = tuple(memory if destroys else replace(memory, peak=0, pods=None) for memory in status.slots)
    bare = tuple(memory for memory in slots if destroys or memory.done or memory.ended or memory.failures)
    facts = (status.phase, status.attempt, status.start_time is None, status.root_cause)
    return facts, scale.target, scale.last_scale_time, scale.history, bare
