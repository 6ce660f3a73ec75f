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
        return failure_words(picture.root_cause)
    if picture.facts.end == "succeeded":
        return f"all {picture.plan.counts.succeeded} trainers finished"
    if picture.view.suspend:
        return "suspended by spec.suspend"
    if picture.queued:
        return picture.scale.reason
    if picture.trouble is not None:
        return trouble_words(picture.trouble)
    return "" if picture.facts.at_minimum else "pods are starting"


def failure_words(cause: TrainingRootCause | None) -> str:
    if cause is None:
        return "a trainer failed"
    exited = f"exit code {cause.exit_code}" if cause.exit_code is not None else ""
    what = ", ".join(part for part in (cause.reason, exited) if part) or "failed"
    last = cause.message.strip().rpartition("\n")[2]
    return f"trainer {cause.pod} failed: {what}{f': {last}' if last else ''}"


def trouble_words(pod: SlotPod) -> str:
    return f"pod {pod.name}: {pod.reason}{f': {pod.message}' if pod.message else ''}"


def _judge(conditions: Conditions, picture: Picture) -> None:
    view = picture.view
    if picture.refused_edits:
        conditions.set("Valid", False, "EditRefused", "; ".join(str(problem) for problem in picture.refused_edits))
    else:
        conditions.set("Valid", True, "Accepted")
    if picture.warnings:
        conditions.set("Warned", True, "SpecWarning", "; ".join(str(warning) for warning in picture.warnings))
    else:
        conditions.clear("Warned", "Mended")
    if picture.queued:
        conditions.set("Queued", True, picture.scale.code or "Waiting", picture.scale.reason)
    else:
        conditions.clear("Queued", "Admitted", picture.scale.reason)
    if view.suspend:
        conditions.set("Suspended", True, "Suspended", "spec.suspend is true: its pods are freed, its place is kept")
    else:
        conditions.clear("Suspended", "Resumed")
    _set_refusals(conditions, picture.refusals)
    _set_ready(conditions, picture)


def _set_refusals(conditions: Conditions, refusals: tuple[Refusal, ...]) -> None:
    taken = [refusal for refusal in refusals if refusal.foreign]
    others = [refusal for refusal in refusals if not refusal.foreign]
    if taken:
        words = "; ".join(refusal.message for refusal in taken)
        conditions.set("NameTaken", True, "ForeignObject", f"{words}; delete or rename it, EDL will not touch it")
    else:
        conditions.clear("NameTaken", "Free")
    if others:
        first = others[0]
        conditions.set("Refused", True, first.code, f"{first.kind} {first.name}: {first.message}")
    else:
        conditions.clear("Refused", "Made")


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
    events = [*_scale_events(old, new), *_condition_events(old, new), *_failure_events(plan, limit)]
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


def _scale_events(old: TrainingJobStatus, new: TrainingJobStatus) -> list[JobEvent]:
    before = (old.scale_status.target if old.scale_status else None) or 0
    scale = new.scale_status
    after = (scale.target if scale else None) or 0
    if scale is None or before == after:
        return []
    reason = "Admitted" if before == 0 else "ScaledUp" if after > before else "ScaledDown"
    return [_normal(reason, f"trainers {before} -> {after}: {scale.reason}")]


_WARN = {"Warned": "True", "NameTaken": "True", "Refused": "True", "Valid": "False"}
_TELL = {"Queued": "True", "Suspended": "True"}


def _condition_events(old: TrainingJobStatus, new: TrainingJobStatus) -> list[JobEvent]:
    known = {condition.type: condition for condition in old.conditions}
    events: list[JobEvent] = []
    for condition in new.conditions:
        before = known.get(condition.type)
        if before is not None and (before.status, before.reason) == (condition.status, condition.reason):
            continue
        if _WARN.get(condition.type) == condition.status:
            events.append(JobEvent("Warning", condition.reason, condition.message))
        elif _TELL.get(condition.type) == condition.status:
            events.append(_normal(condition.type, condition.message))
    return events


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
        events.append(_normal("Replacing", f"created {_list(replaced)}"))
    if leaving:
        events.append(_normal("Leaving", f"asked to leave: {_list(leaving)}"))
    return events


def _list(names: list[str]) -> str:
    return f"{', '.join(names[:5])}{f' and {len(names) - 5} more' if len(names) > 5 else ''}"


def decided(status: TrainingJobStatus, destroys: bool) -> object:
    """The part of a status that a successor must know before we act on it.

    What slots have been through beyond that is read from their pods, which are there until something is destroyed.
    """
    scale = status.scale_status or TrainingScale()
    slots = tuple(memory if destroys else replace(memory, peak=0, pods=None) for memory in status.slots)
    bare = (memory for memory in slots if destroys or memory.done or memory.ended or memory.failures)
    return status.phase, scale.target, scale.last_scale_time, scale.history, tuple(bare), status.root_cause
