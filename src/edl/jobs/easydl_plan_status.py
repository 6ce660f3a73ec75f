"""What is said in the status of JobResources: what was granted of the plan that rules, how far its updates have come,
and why a plan that does not rule is not followed.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from edl.api.easydl_job import ElasticJob
from edl.api.easydl_plan import TRAINER, ruling, selecting
from edl.api.easydl_roles import slot_index
from edl.api.job_resource import KIND, JobResource, JobResourceStatus, SlotUpdate
from edl.api.problem import Problem
from edl.api.status import JobCondition
from edl.jobs.children import change
from edl.jobs.conditions import Conditions
from edl.jobs.easydl_role import RoleLook
from edl.jobs.easydl_status import Picture
from edl.jobs.intents import Change, add

FOLLOWED = "Followed"
REASON_LENGTH = 1000


class Verdict(msgspec.Struct, frozen=True):
    """How a plan stands. `code` and `words` say why no more was granted, or why it is not followed."""

    followed: bool
    code: str
    words: str
    granted: Mapping[str, int] | None = None
    updates: tuple[SlotUpdate, ...] = ()


def told(plan: JobResource, verdict: Verdict, now: float) -> Change | None:
    """What to write into its status, or nothing if that is true already."""
    status = _status(plan.status, plan.metadata.generation, verdict, now)
    if status == plan.status:
        return None
    return change(KIND, plan, [add("/status", msgspec.to_builtins(status))], subresource="status")


def tell_plans(job: ElasticJob, plans: Iterable[JobResource], picture: Picture, now: float) -> list[Change]:
    """What to write into the status of each plan that names the job."""
    mine = sorted(selecting(job, plans), key=lambda one: one.metadata.name)
    ruler = ruling(job, mine)
    verdicts = ((one, outranked(ruler) if ruler and one is not ruler else _ruling(one, picture)) for one in mine)
    changes = (told(plan, verdict, now) for plan, verdict in verdicts)
    return [one for one in changes if one is not None]


def _ruling(plan: JobResource, picture: Picture) -> Verdict:
    if picture.facts.end:
        return Verdict(False, "JobOver", "the job is over")
    if picture.plan.source != plan.metadata.name:
        placed = picture.scale.target
        words = "the scheduler has not looked at it yet" if placed else "waits until the job's trainer has its place"
        return Verdict(False, "Waiting", words)
    granted = {role.name: role.wanted.size for role in picture.roles if role.name != TRAINER and role.role}
    updates = _updates(plan, picture)
    return Verdict(True, picture.scale.code, picture.scale.reason, granted, updates)


def _updates(plan: JobResource, picture: Picture) -> tuple[SlotUpdate, ...]:
    """Of every entry, and of every other slot that is being moved."""
    entries = plan.spec.resource_updation or ()
    updates = {entry.name: _update(entry.name, picture.view.name, picture.roles) for entry in entries}
    for role in picture.roles:
        for index in sorted(role.moving()):
            updates.setdefault(role.slot(index), role.update(index))
    return tuple(updates.values())


def _update(name: str, job: str, roles: Sequence[RoleLook]) -> SlotUpdate:
    for role in roles:
        index = slot_index(job, role.name, name)
        if index is not None and role.name != TRAINER:
            return role.update(index)
    why = f"no slot has this name: those of a job are {job}-ps-N, {job}-worker-N and {job}-evaluator-N"
    return SlotUpdate(name=name, state="refused", reason=why)


def refused_spec(old: JobResourceStatus, problems: Iterable[Problem], generation: int, now: float) -> JobResourceStatus:
    """Of a plan that cannot be read: the job goes on as it was."""
    words = "; ".join(str(problem) for problem in problems)
    verdict = Verdict(False, "Invalid", words, old.granted, old.updates)
    return _status(old, generation, verdict, now)


def no_such_job(plan: JobResource) -> Verdict:
    name = plan.spec.selector.name
    words = f"waits for ElasticJob {name} (elastic.iml.github.io) in namespace {plan.metadata.namespace}: there is none"
    return Verdict(False, "NoSuchJob", words)


def outranked(ruler: JobResource) -> Verdict:
    name = ruler.metadata.name
    words = f"refused: JobResource {name} is older and rules the job; edit that one, or delete it"
    return Verdict(False, "Refused", words)


def _status(old: JobResourceStatus, generation: int, verdict: Verdict, now: float) -> JobResourceStatus:
    conditions = Conditions(old.conditions, generation=generation, now=now)
    reason = verdict.words[:REASON_LENGTH]
    conditions.set(FOLLOWED, verdict.followed, verdict.code if not verdict.followed else "Followed", _why(verdict))
    after = conditions.result()
    steady = old.code == verdict.code and _said(after) == _said(old.conditions)
    return JobResourceStatus(
        granted=dict(verdict.granted) if verdict.granted is not None else None,
        code=verdict.code,
        reason=old.reason if steady and old.reason and verdict.followed else reason,
        updates=verdict.updates,
        conditions=after,
        observed_generation=generation,
    )


def _why(verdict: Verdict) -> str:
    return "" if verdict.followed else verdict.words


def _said(conditions: tuple[JobCondition, ...]) -> list[JobCondition]:
    return [replace(one, last_update_time=None, observed_generation=None) for one in conditions]
