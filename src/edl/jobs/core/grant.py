"""The size that the scheduler grants to a job, and its way into status: durable first, acted upon after.

A grant lives in the memory of the operator that leads. The target in status is the grant of whoever led before: a new
leader starts from it, so that a change of leaders moves nobody.
"""

from collections.abc import Mapping
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from edl.api.job_view import JobView, Role, replicas_at
from edl.api.kubernetes import timestamp
from edl.api.kubernetes.meta import EMPTY
from edl.api.labels import LABEL_ROLE, LABEL_UID
from edl.api.status import Scale, ScaleRecord, SizeHold

HISTORY = 10
S = TypeVar("S", bound=Scale)


class Grant(msgspec.Struct, frozen=True):
    """By role, `nodes`: where the plan sees its new pods; `leavers`: how many it wants gone from which node."""

    target: int
    code: str = ""
    message: str = ""
    nodes: Mapping[str, tuple[str, ...]] = EMPTY
    leavers: Mapping[str, Mapping[str, int]] = EMPTY
    lead: str = ""
    """The role that the target counts, if it is known."""
    roles: Mapping[str, int] = EMPTY
    """Pods of every role that the plan knew of, beside this target."""
    minimum: int | None = None
    """The minimum in force."""
    in_force: Mapping[str, int] = EMPTY
    """Pods of the other roles in it, if fewer than were granted: those have not run yet."""
    hold: SizeHold | None = None
    """A size that is held because its user asked for it."""
    request: str = ""
    """The last request for a size that was obeyed."""
    edition: tuple[int, ...] = ()
    """Generations of the specs that the plan was made of, the job's and its companions'; empty if nobody knows."""

    def pods_of(self, role: Role, size: int) -> int:
        """Pods of a role at this size; of those that do not lead no more than were granted."""
        wanted = replicas_at(role, size)
        return wanted if role.lead or not self.roles else min(wanted, self.roles.get(role.name, 0))

    def least_pods(self, role: Role, size: int) -> int:
        """The same, of those that are in force."""
        pods = self.pods_of(role, size)
        return pods if role.lead else min(pods, self.in_force.get(role.name, pods))

    def nodes_of(self, role: str) -> tuple[str, ...]:
        return self.nodes.get(role, ())

    def leavers_of(self, role: str) -> Mapping[str, int]:
        return self.leavers.get(role, EMPTY)


def grant_in_status(scale: Scale | None) -> Grant | None:
    """The grant recorded in status, None if there never was one."""
    if scale is None or scale.target is None:
        return None
    return Grant(
        scale.target,
        scale.code,
        scale.reason,
        roles=scale.roles or EMPTY,
        minimum=scale.minimum,
        in_force=scale.roles_in_force or EMPTY,
        hold=scale.hold,
        request=scale.request,
    )


def as_granted(view: JobView, grant: Grant | None) -> JobView:
    """With no more pods of the other roles than were granted: more that are asked for since are not there yet."""
    if grant is None or not grant.roles or not grant.target:
        return view
    return replace(view, roles=tuple([_as_granted(role, grant) for role in view.roles]))


def _as_granted(role: Role, grant: Grant) -> Role:
    granted = grant.roles.get(role.name, 0)
    if role.lead or granted >= role.min:
        return role
    return replace(role, min=granted, max=role.max if role.elastic else granted)


def with_grant(scale: S, grant: Grant, now: float, *, refresh_message: bool, lead: str = "") -> S:
    """The scheduling facts with the grant in them. The same code with another message is written only now and then.

    `lead`: the role that the target counts, of a job that has others.
    """
    before = scale.target or 0
    scale = _with_roles(scale, grant, lead) if lead else scale
    if (grant.minimum, grant.hold, grant.request) != (scale.minimum, scale.hold, scale.request):
        scale = replace(scale, minimum=grant.minimum, hold=grant.hold, request=grant.request)
    if grant.target == scale.target:
        if grant.code == scale.code and not refresh_message:
            return scale
        return replace(scale, code=grant.code, reason=grant.message)
    when = timestamp.text(now)
    if before == grant.target:  # the first grant of all, and it is nothing
        return replace(scale, target=grant.target, code=grant.code, reason=grant.message)
    record = ScaleRecord(before=before, to=grant.target, reason=grant.message, time=when)
    return replace(
        scale,
        target=grant.target,
        code=grant.code,
        reason=grant.message,
        last_scale_time=when,
        history=(*scale.history, record)[-HISTORY:],
    )


def _with_roles(scale: S, grant: Grant, lead: str) -> S:
    """A job without pods has nothing of other roles; of a grant that tells nothing of them what is known stays."""
    if not grant.target:
        roles, in_force = None, None
    elif not grant.roles:
        return scale
    else:
        roles = {name: pods for name, pods in grant.roles.items() if name != lead}
        in_force = dict(grant.in_force) or None
    if (roles, in_force) == (scale.roles, scale.roles_in_force):
        return scale
    return replace(scale, roles=roles, roles_in_force=in_force)


def with_counts(scale: S, view: JobView, running: int, pod_seconds: float) -> S:
    """The scheduling facts with what was observed: `running` pods of the leading role, and how long the others ran."""
    selector = f"{LABEL_UID}={view.uid},{LABEL_ROLE}={view.lead.name}"
    return replace(scale, current=running, pod_seconds=pod_seconds, selector=selector)
