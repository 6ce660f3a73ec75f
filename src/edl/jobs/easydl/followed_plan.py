"""Selects the JobResource that an EasyDL job follows, and merges it with the plan followed before."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from edl.api.kubernetes.meta import EMPTY
from edl.jobs.easydl.job_resource import JobResource, RoleResource
from edl.jobs.easydl.types import EasydlStatus, ElasticJob, FollowedPlan

if TYPE_CHECKING:
    from edl.jobs.core.grant import Grant

TRAINER, PS, WORKER, EVALUATOR = "trainer", "ps", "worker", "evaluator"


def resource_in_effect(job: ElasticJob, resources: Iterable[JobResource]) -> JobResource | None:
    """Of the plans that select a job the oldest: whoever comes second must not overturn it unseen."""
    return min(selecting(job, resources), key=_age, default=None)


def selecting(job: ElasticJob, resources: Iterable[JobResource]) -> list[JobResource]:
    """Those that name the job, without any that are being deleted."""
    return [
        resource
        for resource in resources
        if resource.spec.selector.name == job.metadata.name
        and resource.metadata.namespace == job.metadata.namespace
        and resource.metadata.deletion_timestamp is None
    ]


def _age(resource: JobResource) -> tuple[str, str]:
    return resource.metadata.creation_timestamp or "", resource.metadata.name


def followed(job: ElasticJob, resource: JobResource | None) -> FollowedPlan:
    """A role that the plan does not name is left alone, and so is every role once the plan is gone.

    First comes the trainer alone: before that has its place nothing is followed.
    """
    known = job.status.plan or FollowedPlan()
    if resource is None or not (job.status.plan or (job.status.scale and job.status.scale.target)):
        return known
    return FollowedPlan(
        source=resource.metadata.name,
        generation=resource.metadata.generation,
        roles={**(known.roles or EMPTY), **named(resource)} or None,
        updates=resource.spec.resource_updation or (),
    )


def counted_role(plan: FollowedPlan | None) -> str:
    """The role that the size of a job which follows this plan counts."""
    workers = (plan.roles or EMPTY).get(WORKER) if plan is not None else None
    return WORKER if workers is not None and workers.replicas > 0 else TRAINER


def named(resource: JobResource) -> Mapping[str, RoleResource]:
    spec = resource.spec
    roles = {PS: spec.parameter_server, WORKER: spec.worker, EVALUATOR: spec.evaluator}
    return {name: role for name, role in roles.items() if role is not None}


def counts_size(status: EasydlStatus, grant: "Grant") -> bool:
    """Whether a grant is about the role that the job's size counts.

    Trainers are granted before there is a plan, workers by a plan: one says nothing about the other.
    """
    return (WORKER in grant.roles) == (counted_role(status.plan) == WORKER)
