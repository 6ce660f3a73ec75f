"""The status of an EasyDL job from what was observed and planned, and the events of its changes."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from edl.api.job_view import JobView
from edl.api.kubernetes import timestamp
from edl.api.status import ReplicaCounts, RootCause, Scale
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
from edl.jobs.core.pods.pod_set import Counts
from edl.jobs.core.pods.slot_history import to_status
from edl.jobs.core.pods.slots import SlotPod
from edl.jobs.core.reconcile import durable_decision
from edl.jobs.easydl.followed_plan import WORKER
from edl.jobs.easydl.role import RoleReconcile
from edl.jobs.easydl.types import EasydlStatus, FollowedPlan

_PHASES = {"Created": "creating", "Pending": "creating", "Running": "running", "Scaling": "scaling"}


class StatusInputs(msgspec.Struct, frozen=True):
    """Everything that the status is built from."""

    view: JobView
    plan: FollowedPlan
    scale: Scale
    """With the present grant in it."""
    roles: Sequence[RoleReconcile]
    facts: Facts
    found: CommonFacts
    awaits: str = ""
    """What it waits for beside the scheduler: its plan."""
    end_message: str = ""
    end_code: str = ""
    root_cause: RootCause | None = None
    refresh_message: bool = False

    @property
    def counts(self) -> Mapping[str, Counts]:
        return {role.name: role.plan.counts for role in self.roles if role.role or role.plan.counts != Counts()}

    @property
    def lead(self) -> RoleReconcile:
        return next(role for role in self.roles if role.name == self.view.lead.name)

    @property
    def startup_problem(self) -> SlotPod | None:
        """A pod that does not come up, with its reason."""
        found = (role.observed_pods.startup_problem for role in self.roles)
        return next((pod for pod in found if pod is not None), None)


def build_status(old: EasydlStatus, inputs: StatusInputs, now: float) -> EasydlStatus:
    view, lead = inputs.view, inputs.lead.plan.counts
    phase = _phase(old.phase, inputs)
    conditions = Conditions(old.conditions, generation=view.generation, now=now)
    ready = conditions.get("Ready")
    _set_conditions(conditions, inputs)
    _set_end(conditions, inputs)
    same = phase == old.phase and conditions.get("Ready") == ready and not inputs.refresh_message
    workers = next(role.plan.record for role in inputs.roles if role.name == WORKER)
    memories = (to_status(role.name, role.plan.record) for role in inputs.roles)
    when = timestamp.text(now)
    return EasydlStatus(
        phase=phase,
        reason=old.reason if same and old.reason else _reason(inputs),
        conditions=conditions.result(),
        replica_statuses={role: ReplicaCounts(**msgspec.structs.asdict(one)) for role, one in inputs.counts.items()},
        scale=with_counts(inputs.scale, view, lead.active + lead.succeeded, workers.seconds),
        root_cause=inputs.root_cause or old.root_cause,
        slots=tuple(memory for memory in memories if memory is not None),
        attempt=old.attempt,
        minimum_reached=old.minimum_reached or (inputs.facts.at_minimum and view.lead.name == WORKER),
        start_time=old.start_time or when,
        completion_time=old.completion_time or (when if inputs.facts.end else None),
        observed_generation=view.generation,
        plan=inputs.plan if inputs.plan != FollowedPlan() else None,
    )


def _phase(old: str, inputs: StatusInputs) -> str:
    phase = next_phase(_PHASES.get(old, old.lower()), inputs.facts)
    if phase != "creating":
        return phase.capitalize()
    pods = any(count.active or count.pending for count in inputs.counts.values())
    return "Pending" if pods else "Created"


def _reason(inputs: StatusInputs) -> str:
    if inputs.facts.end:
        return inputs.end_message
    held = held_message(inputs.found, inputs.startup_problem)
    if held is not None:
        return held
    if not inputs.facts.at_minimum:
        return "pods are starting"
    return inputs.awaits


def _set_conditions(conditions: Conditions, inputs: StatusInputs) -> None:
    set_common_conditions(conditions, inputs.found)
    if inputs.plan.source:
        conditions.set("Planned", True, "Planned", f"it follows JobResource {inputs.plan.source}")
    else:
        conditions.set("Planned", False, "NoPlan", "no JobResource names it yet: only its trainer runs")
    set_ready(conditions, inputs.facts, inputs.found, inputs.startup_problem, counts="replicaStatuses")


def _set_end(conditions: Conditions, inputs: StatusInputs) -> None:
    if inputs.facts.end:
        kind = "Succeeded" if inputs.facts.end == "succeeded" else "Failed"
        conditions.set(kind, True, inputs.end_code, inputs.end_message)


# Events.


def status_events(old: EasydlStatus, new: EasydlStatus, roles: Iterable[RoleReconcile]) -> list[JobEvent]:
    """The events of a step from one status to the next. The same step gives the same events."""
    events = [*scale_events("size", old.scale, new.scale), *condition_events(old.conditions, new.conditions)]
    if new.plan is not None and (old.plan is None or old.plan.source != new.plan.source):
        events.append(JobEvent("Normal", "Planned", f"it follows JobResource {new.plan.source}"))
    for role in roles:
        for failure in role.plan.failures:
            fate = "given up" if failure.final else f"replaced (failure {failure.count})"
            message = f"{failure.pod.name}: {failure.pod.cause or 'failed'}; {fate}"
            events.append(JobEvent("Warning", f"{role.name.capitalize()}Failed", message))
    if new.phase != old.phase:
        failed = new.phase == "Failed"
        events.append(JobEvent("Warning" if failed else "Normal", new.phase, new.reason or "every minimum pod runs"))
    return events


def decision(status: EasydlStatus, destroys: bool) -> object:
    """What a successor must know before we act on it."""
    scale = status.scale or Scale()
    return durable_decision(scale, status.slots, destroys, status.phase, status.root_cause, status.plan)
