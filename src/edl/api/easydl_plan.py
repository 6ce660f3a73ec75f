"""Which JobResource rules an EasyDL job, and what the job follows: that plan, over what it followed before."""

from collections.abc import Iterable, Mapping

from edl.api.easydl_job import ElasticJob, FollowedPlan
from edl.api.job_resource import JobResource, RoleResource
from edl.api.meta import EMPTY

TRAINER, PS, WORKER, EVALUATOR = "trainer", "ps", "worker", "evaluator"


def ruling(job: ElasticJob, resources: Iterable[JobResource]) -> JobResource | None:
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


def counted(plan: FollowedPlan | None) -> str:
    """The role that the size of a job which follows this plan counts."""
    workers = (plan.roles or EMPTY).get(WORKER) if plan is not None else None
    return WORKER if workers is not None and workers.replicas > 0 else TRAINER


def named(resource: JobResource) -> Mapping[str, RoleResource]:
    spec = resource.spec
    roles = {PS: spec.parameter_server, WORKER: spec.worker, EVALUATOR: spec.evaluator}
    return {name: role for name, role in roles.items() if role is not None}
