"""The status of a TrainingJob from what was found and planned, and the events that tell of its changes."""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from edl.api import timestamp
from edl.api.annotations import LABEL_ROLE
from edl.api.problem import Problem
from edl.api.roles import JobView
from edl.api.training_job import (
    RoleStatus,
    TrainingJobStatus,
    TrainingRootCause,
    TrainingScale,
)
from edl.api.training_roles import TRAINER
from edl.jobs.children import LABEL_UID
from edl.jobs.conditions import Conditions
from edl.jobs.judgement import Circumstances, condition_events, failure_words, judge, scale_events, some, trouble_words
from edl.jobs.outcome import JobEvent, Refusal
from edl.jobs.phase import Facts, next_phase
from edl.jobs.podset import Counts, PodSetPlan
from edl.jobs.record import to_status
from edl.jobs.slots import SlotPod


class Picture(msgspec.Struct, frozen=True):
    """One look at a job, complete: what the status is drawn from."""

    view: JobView
    scale: TrainingScale
    """With the present grant in it."""
    counts: Mapping[str, Counts]
    plan: PodSetPlan
    facts: Facts
    queued: bool
    trouble: SlotPod | None = None
    """A pod that does not come up, with its reason."""
    root_cause: TrainingRootCause | None = None
    may_reword: bool = False
    """Words alone were not renewed for a while."""
    refusals: tuple[Refusal, ...] = ()
    refused_edits: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def draw(old: TrainingJobStatus, picture: Picture, now: float) -> TrainingJobStatus:
    view, plan = picture.view, picture.plan
    phase = next_phase(old.phase, picture.facts)
    conditions = Conditions(old.conditions, generation=view.generation, now=now)
    ready = conditions.get("Ready")
    _judge(conditions, picture)
    _set_end(conditions, picture)
    same = phase == old.phase and conditions.get("Ready") == ready and not picture.may_reword
    memory = to_status(TRAINER, plan.record)
    trainers = plan.counts
    when = timestamp.text(now)
    return TrainingJobStatus(
        phase=phase,
        reason=old.reason if same else _reason(picture),
        scale_status=replace(
            picture.scale,
            current=trainers.active + trainers.succeeded,
            pod_seconds=plan.record.seconds,
            selector=f"{LABEL_UID}={view.uid},{LABEL_ROLE}={TRAINER}",
        ),
        replica_statuses=tuple(_role(role.name, picture.counts) for role in view.roles),
        conditions=conditions.result(),
        root_cause=picture.root_cause or old.root_cause,
        slots=(memory,) if memory is not None else (),
        start_time=old.start_time or when,
        completion_time=old.completion_time or (when if picture.facts.end else None),
        observed_generation=view.generation,
    )


def _role(name: str, counts: Mapping[str, Counts]) -> RoleStatus:
    return RoleStatus(role=name, **msgspec.structs.asdict(counts.get(name, Counts())))


def _reason(picture: Picture) -> str:
    """Why it is in its phase. Numbers would change all the time; they are in the scale status and the counts."""
    if picture.facts.end == "failed":
        return failure_words("trainer", picture.root_cause)
    if picture.facts.end == "succeeded":
        return f"all {picture.plan.counts.succeeded} trainers finished"
    if picture.view.suspend:
        return "suspended by spec.suspend"
    if picture.queued:
        return picture.scale.reason
    if picture.trouble is not None:
        return trouble_words(picture.trouble)
    return "" if picture.facts.at_minimum else "pods are starting"


def _judge(conditions: Conditions, picture: Picture) -> None:
    if not picture.refused_edits:
        conditions.set("Valid", True, "Accepted")
    found = Circumstances(
        queued=picture.queued,
        suspended=picture.view.suspend,
        code=picture.scale.code,
        reason=picture.scale.reason,
        refusals=picture.refusals,
        refused_edits=picture.refused_edits,
        warnings=picture.warnings,
    )
    judge(conditions, found)
    _set_ready(conditions, picture)


def _set_ready(conditions: Conditions, picture: Picture) -> None:
    facts = picture.facts
    if facts.end:
        conditions.set("Ready", False, "Finished")
    elif facts.at_minimum and not facts.held:
        conditions.set("Ready", True, "MinimumRunning", "every minimum pod runs")
    elif picture.view.suspend:
        conditions.set("Ready", False, "Suspended")
    elif picture.queued:
        conditions.set("Ready", False, "Queued")
    elif picture.trouble is not None:
        conditions.set("Ready", False, picture.trouble.reason, trouble_words(picture.trouble))
    else:
        conditions.set("Ready", False, "Starting", "not every minimum pod runs; replica_statuses has the numbers")


def _set_end(conditions: Conditions, picture: Picture) -> None:
    if picture.facts.end == "succeeded":
        conditions.set("Succeeded", True, "AllTrainersFinished", _reason(picture))
    elif picture.facts.end == "failed":
        conditions.set("Failed", True, "TrainerFailed", _reason(picture))


def told(old: TrainingJobStatus, new: TrainingJobStatus, plan: PodSetPlan, limit: int) -> list[JobEvent]:
    """The events of a step from one status to the next. The same step tells the same events."""
    events = [
        *scale_events("trainers", old.scale_status, new.scale_status),
        *condition_events(old.conditions, new.conditions),
        *_failure_events(plan, limit),
    ]
    if new.phase != old.phase:
        events.append(_phase_event(new))
    return events


def _normal(reason: str, message: str) -> JobEvent:
    return JobEvent("Normal", reason, message)


def _phase_event(new: TrainingJobStatus) -> JobEvent:
    scale = new.scale_status or TrainingScale()
    if new.phase == "failed":
        return JobEvent("Warning", "Failed", new.reason)
    if new.phase == "running":
        return _normal("Running", f"{scale.current} trainers run")
    if new.phase == "scaling":
        return _normal("Scaling", f"{scale.current} of {scale.target} trainers run")
    return _normal(new.phase.capitalize(), new.reason)


def _failure_events(plan: PodSetPlan, limit: int) -> list[JobEvent]:
    events: list[JobEvent] = []
    for failure in plan.failures:
        pod = failure.pod
        fate = "given up" if failure.final else f"replaced ({failure.count} of {limit} failures)"
        events.append(JobEvent("Warning", "TrainerFailed", f"{pod.name}: {pod.cause or 'failed'}; {fate}"))
    return events


def done(plan: PodSetPlan) -> list[JobEvent]:
    """What carrying out the plan is worth telling: who took the place of whom, and who was asked to leave."""
    events: list[JobEvent] = []
    replaced = [new.name for new in plan.create if new.attempt > 0]
    leaving = [pod.name for pod in plan.delete if pod.live]
    if replaced:
        events.append(_normal("Replacing", f"created {some(replaced)}"))
    if leaving:
        events.append(_normal("Leaving", f"asked to leave: {some(leaving)}"))
    return events


def decided(status: TrainingJobStatus, destroys: bool) -> object:
    """The part of a status that a successor must know before we act on it.

    What slots have been through beyond that is read from their pods, which are there until something is destroyed.
    """
    scale = status.scale_status or TrainingScale()
    slots = tuple(memory if destroys else replace(memory, peak=0, pods=None) for memory in status.slots)
    bare = (memory for memory in slots if destroys or memory.done or memory.ended or memory.failures)
    return status.phase, scale.target, scale.last_scale_time, scale.history, tuple(bare), status.root_cause
