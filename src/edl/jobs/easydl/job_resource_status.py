"""Status of JobResources: what was granted of the plan that rules, how far its updates have come,
and why a plan that does not rule is not followed.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from edl.api.schema.problem import Problem
from edl.jobs.core.actions import Change, add
from edl.jobs.core.children import change
from edl.jobs.core.conditions import Conditions
from edl.jobs.easydl.followed_plan import TRAINER, resource_in_effect, selecting
from edl.jobs.easydl.job_resource import KIND, JobResource, JobResourceStatus, SlotUpdate
from edl.jobs.easydl.role import RoleReconcile
from edl.jobs.easydl.roles import slot_index
from edl.jobs.easydl.status import StatusInputs
from edl.jobs.easydl.types import ElasticJob

FOLLOWED = "Followed"
REASON_LENGTH = 1000


class PlanState(msgspec.Struct, frozen=True):
    """The state of a plan. `code` and `message` say why no more was granted, or why it is not followed."""

    followed: bool
    code: str
    message: str
    granted: Mapping[str, int] | None = None
    updates: tuple[SlotUpdate, ...] = ()


def status_change(plan: JobResource, state: PlanState, now: float) -> Change | None:
    """What to write into its status, or nothing if that is true already."""
    status = _status(plan.status, plan.metadata.generation, state, now)
    if status == plan.status:
        return None
    return change(KIND, plan, [add("/status", msgspec.to_builtins(status))], subresource="status")


def plan_status_changes(
    job: ElasticJob, plans: Iterable[JobResource], inputs: StatusInputs, now: float
) -> list[Change]:
    """What to write into the status of each plan that names the job."""
    mine = sorted(selecting(job, plans), key=lambda one: one.metadata.name)
    effective = resource_in_effect(job, mine)
    states = (
        (one, not_in_effect(effective) if effective and one is not effective else _followed_state(one, inputs))
        for one in mine
    )
    changes = (status_change(plan, state, now) for plan, state in states)
    return [one for one in changes if one is not None]


def _followed_state(plan: JobResource, inputs: StatusInputs) -> PlanState:
    if inputs.facts.end:
        return PlanState(False, "JobOver", "the job is over")
    if inputs.plan.source != plan.metadata.name:
        placed = inputs.scale.target
        message = "the scheduler has not looked at it yet" if placed else "waits until the job's trainer has its place"
        return PlanState(False, "Waiting", message)
    granted = {role.name: role.wanted.size for role in inputs.roles if role.name != TRAINER and role.role}
    updates = _updates(plan, inputs)
    return PlanState(True, inputs.scale.code, inputs.scale.reason, granted, updates)


def _updates(plan: JobResource, inputs: StatusInputs) -> tuple[SlotUpdate, ...]:
    """Of every entry, and of every other slot that is being moved."""
    entries = plan.spec.resource_updation or ()
    updates = {entry.name: _update(entry.name, inputs.view.name, inputs.roles) for entry in entries}
    for role in inputs.roles:
        for index in sorted(role.moving()):
            updates.setdefault(role.slot(index), role.update(index))
    return tuple(updates.values())


def _update(name: str, job: str, roles: Sequence[RoleReconcile]) -> SlotUpdate:
    for role in roles:
        index = slot_index(job, role.name, name)
        if index is not None and role.name != TRAINER:
            return role.update(index)
    why = f"no slot has this name: those of a job are {job}-ps-N, {job}-worker-N and {job}-evaluator-N"
    return SlotUpdate(name=name, state="refused", reason=why)


def refused_spec(old: JobResourceStatus, problems: Iterable[Problem], generation: int, now: float) -> JobResourceStatus:
    """Of a plan that cannot be read: the job goes on as it was."""
    message = "; ".join(str(problem) for problem in problems)
    state = PlanState(False, "Invalid", message, old.granted, old.updates)
    return _status(old, generation, state, now)


def no_such_job(plan: JobResource) -> PlanState:
    name = plan.spec.selector.name
    message = (
        f"waits for ElasticJob {name} (elastic.iml.github.io) in namespace {plan.metadata.namespace}: there is none"
    )
    return PlanState(False, "NoSuchJob", message)


def without_job(plan: JobResource, exists: bool, now: float) -> Change | None:
    """Of a plan whose job cannot speak for it: it is not there, or `exists` and its spec is refused."""
    message = f"waits until ElasticJob {plan.spec.selector.name} is mended: its spec is refused"
    return status_change(plan, PlanState(False, "JobRefused", message) if exists else no_such_job(plan), now)


def not_in_effect(effective: JobResource) -> PlanState:
    name = effective.metadata.name
    message = f"refused: JobResource {name} is older and rules the job; edit that one, or delete it"
    return PlanState(False, "Refused", message)


def _status(old: JobResourceStatus, generation: int, state: PlanState, now: float) -> JobResourceStatus:
    """The reason is the job's own, which is not reworded at every reconcile."""
    conditions = Conditions(old.conditions, generation=generation, now=now)
    conditions.set(FOLLOWED, state.followed, state.code if not state.followed else "Followed", _why(state))
    return JobResourceStatus(
        granted=dict(state.granted) if state.granted is not None else None,
        code=state.code,
        reason=state.message[:REASON_LENGTH],
        updates=state.updates,
        conditions=conditions.result(),
        observed_generation=generation,
    )


def _why(state: PlanState) -> str:
    return "" if state.followed else state.message
