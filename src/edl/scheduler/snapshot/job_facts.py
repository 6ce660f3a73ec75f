"""Builds one job of the snapshot: what its object says, and what was counted of its pods."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from edl.api.job_view import JobView
from edl.api.kubernetes.core import Job, ReplicaSet
from edl.api.labels import LABEL_ROLE
from edl.scheduler.snapshot.job_terms import NO_REFUSAL, JobTerms, Refusal
from edl.scheduler.snapshot.job_usage import JobUsage
from edl.scheduler.snapshot.objects import Invalid
from edl.scheduler.snapshot.ownership import Child, JobIdentity
from edl.scheduler.snapshot.pod_facts import moment
from edl.scheduler.snapshot.types import JobFacts, RoleFacts, State
from edl.scheduler.snapshot.usage import unbound_pods

# Of these the snapshot knows more than the object: pods are counted, priorities capped, roles have shapes.
_KNOWN_BETTER = {"current", "priority", "roles"}
_SAME = tuple(name for name in JobView.__struct_fields__ if name in {*JobFacts.__struct_fields__} - _KNOWN_BETTER)
_same = attrgetter(*_SAME)


def job_facts(
    job: JobTerms,
    roles: tuple[RoleFacts, ...],
    job_usage: JobUsage,
    size: int | None,
    refusal: Refusal,
    positions: Mapping[str, int],
) -> JobFacts:
    """`size`: of the child of the leading role, if there is one. `refusal`: that a child tells of."""
    waiting = [sorted(pods, key=lambda pod: pod.pod.metadata.name) for pods in job_usage.unbound]
    live = job_usage.live[job.lead] + (len(waiting[job.lead]) if waiting else 0)
    return JobFacts(
        **_from_view(job),
        roles=roles,
        gpu=any(role.shape.gpus for role in roles),
        current=live if size is None else size,
        bound=tuple([dict(sorted(bound.items())) for bound in job_usage.bound]),
        live=tuple(job_usage.live),
        unbound=tuple([unbound_pods(pods, job_usage.bound[role], positions) for role, pods in enumerate(waiting)]),
        done=job_usage.done,
        refusal=job.refusal[0] or refusal[0],
        refused_since=(job.refusal if job.refusal[0] else refusal)[1],
        running=job_usage.running,
        started_sum=job_usage.started_sum,
    )


def _from_view(job: JobTerms) -> dict[str, Any]:
    """What the object itself says."""
    view = job.view
    fields: dict[str, Any] = dict(zip(_SAME, _same(view), strict=True))
    fields["state"], fields["note"] = _state(view)
    fields["priority"], fields["lead"], fields["max_name"] = job.priority, job.lead, job.max_name
    fields["pods_at"], fields["roles_at"] = job.pods_at, job.pods_at.named
    fields["created"], fields["started"] = moment(view.creation_timestamp), job.started
    return fields


def child_refusal(children: Sequence[Child]) -> Refusal:
    """What a controller of Kubernetes tells of pods that it may not make."""
    for child in children:
        for condition in child.status.conditions if isinstance(child, ReplicaSet) else ():
            if condition.type == "ReplicaFailure" and condition.status == "True":
                return f"{child.metadata.name}: {condition.message}", moment(condition.last_transition_time)
    return NO_REFUSAL


def child_size(job: JobIdentity, children: Sequence[Child]) -> int | None:
    """The size that the child of the leading role has, if there is one."""
    for child in children:
        named = child.metadata.name == f"{job.name}-{job.lead}"
        leads = named or child.metadata.labels.get(LABEL_ROLE, "") == job.lead
        if isinstance(child, Job):
            return max(0, child.spec.parallelism)
        if isinstance(child, ReplicaSet) and leads:
            return max(0, child.spec.replicas)
    return None


def _state(view: JobView) -> tuple[State, str]:
    if view.deletion_timestamp is not None:
        return "deleting", ""
    if view.finished:
        return "finished", view.phase
    return ("suspended", "") if view.suspend else ("active", "")


def left_alone(job: Invalid, children: Sequence[Child], live: int) -> JobFacts:
    sizes = [child.spec.parallelism for child in children if isinstance(child, Job)]
    return JobFacts(
        kind=job.kind,
        api_version=job.api_version,
        namespace=job.namespace,
        name=job.name,
        uid=job.uid,
        state="invalid",
        note=job.problem,
        current=max(0, sizes[0]) if sizes else live,
    )
