"""The status of a TrainingJob from what was observed and planned, and the events of its changes."""

from collections.abc import Iterator, Mapping

import msgspec

from edl.api.job_view import JobView
from edl.api.kubernetes import timestamp
from edl.api.kubernetes.meta import EMPTY
from edl.api.status import SlotMemory
from edl.jobs.core.common_conditions import (
    CommonFacts,
    condition_events,
    held_message,
    scale_events,
    set_common_conditions,
    set_ready,
)
from edl.jobs.core.conditions import Conditions
from edl.jobs.core.grant import with_counts
from edl.jobs.core.outcome import JobEvent
from edl.jobs.core.phase import Facts, next_phase
from edl.jobs.core.pods.pod_set import Counts, PodSetPlan
from edl.jobs.core.pods.slot_history import to_status
from edl.jobs.core.pods.slots import SlotPod
from edl.jobs.core.reconcile import durable_decision
from edl.jobs.training.completion import Completion
from edl.jobs.training.roles import TRAINER
from edl.jobs.training.types import RoleStatus, TrainingJobStatus, TrainingScale


class StatusInputs(msgspec.Struct, frozen=True):
    """Everything that the status is built from."""

    view: JobView
    scale: TrainingScale
    """With the present grant in it."""
    counts: Mapping[str, Counts]
    plan: PodSetPlan
    facts: Facts
    found: CommonFacts
    startup_problem: SlotPod | None = None
    """A pod that does not come up, with its reason."""
    forgiven: Mapping[str, dict[str, int]] = EMPTY
    """By role: restarts of servers that no longer count, by pod."""
    completion: Completion | None = None
    refresh_message: bool = False
    """Words alone were not renewed for a while."""


def build_status(old: TrainingJobStatus, inputs: StatusInputs, now: float) -> TrainingJobStatus:
    view, plan = inputs.view, inputs.plan
    phase = next_phase(old.phase, inputs.facts)
    conditions = Conditions(old.conditions, generation=view.generation, now=now)
    ready = conditions.get("Ready")
    _set_conditions(conditions, inputs)
    _set_end(conditions, inputs)
    same = phase == old.phase and conditions.get("Ready") == ready and not inputs.refresh_message
    trainers = plan.counts
    when = timestamp.text(now)
    return TrainingJobStatus(
        phase=phase,
        reason=old.reason if same else _reason(inputs),
        scale_status=with_counts(inputs.scale, view, trainers.active + trainers.succeeded, plan.record.seconds),
        replica_statuses=tuple(_role(role.name, inputs.counts) for role in view.roles),
        conditions=conditions.result(),
        root_cause=(inputs.completion.cause if inputs.completion is not None else None) or old.root_cause,
        slots=tuple(_memories(inputs)),
        start_time=old.start_time or when,
        completion_time=old.completion_time or (when if inputs.facts.end else None),
        observed_generation=view.generation,
    )


def _memories(inputs: StatusInputs) -> Iterator[SlotMemory]:
    trainers = to_status(TRAINER, inputs.plan.record)
    if trainers is not None:
        yield trainers
    yield from (SlotMemory(role=role, forgiven=forgiven) for role, forgiven in inputs.forgiven.items())


def _role(name: str, counts: Mapping[str, Counts]) -> RoleStatus:
    return RoleStatus(role=name, **msgspec.structs.asdict(counts.get(name, Counts())))


def _reason(inputs: StatusInputs) -> str:
    """Why it is in its phase. Numbers would change all the time; they are in the scale status and the counts."""
    if inputs.completion is not None:
        return inputs.completion.message
    held = held_message(inputs.found, inputs.startup_problem)
    if held is not None:
        return held
    return "" if inputs.facts.at_minimum else "pods are starting"


def _set_conditions(conditions: Conditions, inputs: StatusInputs) -> None:
    if not inputs.found.refused_edits:
        conditions.set("Valid", True, "Accepted")
    set_common_conditions(conditions, inputs.found)
    set_ready(conditions, inputs.facts, inputs.found, inputs.startup_problem, counts="replica_statuses")


def _set_end(conditions: Conditions, inputs: StatusInputs) -> None:
    if inputs.completion is not None:
        completion = inputs.completion
        conditions.set(completion.phase.capitalize(), True, completion.code, completion.message)


def status_events(old: TrainingJobStatus, new: TrainingJobStatus, plan: PodSetPlan, limit: int) -> list[JobEvent]:
    """The events of a step from one status to the next. The same step gives the same events."""
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


def decision(status: TrainingJobStatus, destroys: bool) -> object:
    """What a successor must know before we act on it."""
    scale = status.scale_status or TrainingScale()
    return durable_decision(scale, status.slots, destroys, status.phase, status.root_cause)
