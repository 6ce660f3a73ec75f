"""The status of a PyTorch ElasticJob and its events, in the words of design 004."""

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec.structs import asdict, replace

from edl.api.job_view import JobView
from edl.api.kubernetes import timestamp
from edl.api.status import ElasticStatus, MemberChange, ReplicaCounts, RootCause, Scale
from edl.jobs.core.actions import Action, Create, Delete
from edl.jobs.core.common_conditions import (
    CommonFacts,
    condition_events,
    failure_message,
    held_message,
    scale_events,
    set_common_conditions,
    some,
)
from edl.jobs.core.conditions import Conditions
from edl.jobs.core.grant import with_counts
from edl.jobs.core.outcome import JobEvent
from edl.jobs.core.pods.failures import STALLED, Failure, cause_of
from edl.jobs.core.pods.pod_set import Counts, PodSetPlan
from edl.jobs.core.pods.slot_history import to_status
from edl.jobs.core.pods.slots import SlotPod
from edl.jobs.core.reconcile import durable_decision
from edl.jobs.pytorch.environment import WORKER

ROLE = "Worker"
"""As replicaStatuses and messages spell it."""
EACH = 4  # so many pods or Services have an event each; more share one

Phase = Literal["Created", "Pending", "Running", "Scaling", "Restarting", "Succeeded", "Failed"]


class Completion(msgspec.Struct, frozen=True):
    """How the job ends. `message` is that of the condition."""

    phase: Literal["Succeeded", "Failed"]
    code: str
    message: str
    cause: RootCause | None = None


class StatusInputs(msgspec.Struct, frozen=True):
    """Everything that the status is built from."""

    view: JobView
    scale: Scale
    """With the present grant in it."""
    plan: PodSetPlan
    size: int
    """What it may have now: nothing while it waits or is suspended."""
    resized: bool
    found: CommonFacts
    attempt: int = 0
    startup_problem: SlotPod | None = None
    """A pod that does not come up, with its reason."""
    completion: Completion | None = None
    decided: bool = True
    """The scheduler has looked at it."""
    refresh_message: bool = False
    """Words alone were not renewed for a while."""
    change: MemberChange | None = None
    """How its workers last changed, as they say."""

    @property
    def minimum(self) -> int:
        return self.view.least

    @property
    def working(self) -> int:
        return self.plan.counts.active + self.plan.counts.succeeded

    @property
    def settled(self) -> bool:
        return self.plan.leaving == 0 and self.working >= self.size - len(self.plan.given_up)


def build_status(old: ElasticStatus, inputs: StatusInputs, now: float) -> ElasticStatus:
    view, plan, when = inputs.view, inputs.plan, timestamp.text(now)
    anew = inputs.attempt != old.attempt
    reached = inputs.size > 0 and ((old.minimum_reached and not anew) or inputs.working >= inputs.minimum)
    phase = next_phase(old, inputs, reached)
    conditions = Conditions(old.conditions, generation=view.generation, now=now)
    _set_conditions(conditions, inputs, phase)
    memory = to_status(WORKER, plan.record)
    return ElasticStatus(
        phase=phase,
        reason=old.reason if _still_so(old, inputs, phase) else _reason(inputs),
        conditions=conditions.result(),
        replica_statuses={ROLE: replica_counts(replace(plan.counts, desired=0) if inputs.completion else plan.counts)},
        scale=with_counts(inputs.scale, view, inputs.working, plan.record.seconds),
        root_cause=(inputs.completion.cause if inputs.completion is not None else None) or old.root_cause,
        last_change=_last_change(None if anew else old.last_change, inputs.change, when),
        slots=(memory,) if memory is not None else (),
        attempt=inputs.attempt,
        minimum_reached=reached,
        start_time=None if view.suspend else old.start_time or (when if inputs.size > 0 else None),
        completion_time=old.completion_time or (when if inputs.completion is not None else None),
        observed_generation=view.generation,
    )


def _last_change(old: MemberChange | None, said: MemberChange | None, when: str) -> MemberChange | None:
    """What is known stays when nobody says anything, as after a change of leader."""
    if said is None or (old is not None and replace(old, time=None) == said):
        return old
    return replace(said, time=when)


def replica_counts(counts: Counts) -> ReplicaCounts:
    return ReplicaCounts(**asdict(counts))


def next_phase(old: ElasticStatus, inputs: StatusInputs, reached: bool) -> Phase:
    if inputs.completion is not None:
        return inputs.completion.phase
    if not inputs.decided:
        return "Created"
    if not reached:
        return "Pending"
    restarting = bool(inputs.plan.failures) or (old.phase == "Restarting" and not inputs.settled)
    if restarting or (inputs.working < inputs.minimum and not inputs.resized):
        return "Restarting"
    # A worker that was lost and is being replaced is no change of size: a running job keeps running.
    scaling = inputs.resized or (old.phase != "Running" and not inputs.settled)
    return "Scaling" if scaling else "Running"


def _set_conditions(conditions: Conditions, inputs: StatusInputs, phase: Phase) -> None:
    name = inputs.view.name
    conditions.set("Created", True, "ElasticJobCreated", f"job {name} is created.")
    set_common_conditions(conditions, inputs.found)
    if inputs.completion is not None:
        _end(conditions, inputs.completion)
        return
    if phase in ("Running", "Scaling", "Restarting") and inputs.working >= inputs.minimum:
        conditions.set("Running", True, "ElasticJobRunning", f"ElasticJob {name} is running.")
    else:
        conditions.clear("Running", f"ElasticJob{phase}", _reason(inputs))
    if inputs.plan.failures:
        conditions.set("Restarting", True, "ElasticJobRestarting", restarting_message(name, len(inputs.plan.failures)))
    elif phase == "Restarting":
        _keep_restarting(conditions, inputs)
    else:
        conditions.clear("Restarting", f"ElasticJob{phase}", _reason(inputs))


def _keep_restarting(conditions: Conditions, inputs: StatusInputs) -> None:
    if not conditions.is_true("Restarting"):
        lost = inputs.minimum - inputs.working
        message = f"ElasticJob {inputs.view.name} is restarting because {lost} Worker replica(s) are missing."
        conditions.set("Restarting", True, "ElasticJobRestarting", message)


def _end(conditions: Conditions, completion: Completion) -> None:
    """What was said before is no longer so, and goes on saying what it said: that is how 004 shows it."""
    for kind in ("Running", "Restarting"):
        said = conditions.get(kind)
        if said is not None:
            conditions.clear(kind, said.reason, said.message)
    conditions.set(completion.phase, True, completion.code, completion.message)


def restarting_message(job: str, count: int) -> str:
    return f"ElasticJob {job} is restarting because {count} Worker replica(s) failed."


def _still_so(old: ElasticStatus, inputs: StatusInputs, phase: Phase) -> bool:
    """The reason of a restart stays until it is over; that of a pod that does not start until it is another pod."""
    if phase != old.phase or not old.reason or inputs.completion is not None:
        return False
    if phase == "Restarting":
        return not inputs.plan.failures
    startup_problem = inputs.startup_problem
    known = startup_problem is not None and old.reason.startswith(
        f"pod {startup_problem.name}: {startup_problem.reason}"
    )
    return known and not inputs.refresh_message


def _reason(inputs: StatusInputs) -> str:
    """Why it is in its phase. Numbers would change all the time; they are in scale and replicaStatuses."""
    if inputs.completion is not None:
        if inputs.completion.cause is None:
            return inputs.completion.message
        return f"{inputs.completion.message} First: {failure_message(WORKER, inputs.completion.cause)}"
    held = held_message(inputs.found, inputs.startup_problem)
    if held is not None:
        return held
    if inputs.plan.failures:
        return failure_message(WORKER, cause_of(inputs.plan.failures[0].pod))
    return "" if inputs.working >= inputs.minimum else "workers are starting"


def status_events(old: ElasticStatus, new: ElasticStatus, inputs: StatusInputs) -> list[JobEvent]:
    """The events of a step from one status to the next. The same step gives the same events."""
    view, plan = inputs.view, inputs.plan
    events = [
        *scale_events("workers", old.scale, new.scale),
        *condition_events(old.conditions, new.conditions),
        *(_failure_event(view, failure) for failure in plan.failures),
    ]
    if plan.failures and inputs.completion is None:
        message = restarting_message(view.name, len(plan.failures))
        events.append(JobEvent("Warning", "ElasticJobRestarting", message))
    if new.last_change is not None and new.last_change != old.last_change:
        events.append(JobEvent("Normal", "MembersChanged", new.last_change.words))
    if inputs.completion is not None:
        events.append(JobEvent("Normal", inputs.completion.code, inputs.completion.message))
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


def action_events(actions: Sequence[Action]) -> list[JobEvent]:
    """Events of running the actions."""
    events: list[JobEvent] = []
    for action_type, verb, past in ((Create, "Create", "Created"), (Delete, "Delete", "Deleted")):
        for kind in ("Pod", "Service"):
            names = [action.name for action in actions if isinstance(action, action_type) and action.kind == kind]
            shown = names if len(names) <= EACH else [some(names)]
            events += [JobEvent("Normal", f"Successful{verb}{kind}", f"{past} {kind.lower()}: {one}") for one in shown]
    return events


def decision(status: ElasticStatus, destroys: bool) -> object:
    """What a successor must know before we act on it."""
    scale = status.scale or Scale()
    return durable_decision(
        scale, status.slots, destroys, status.phase, status.attempt, status.start_time is None, status.root_cause
    )
