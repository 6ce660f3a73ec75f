"""The view of an EasyDL ElasticJob: the roles and sizes that its JobResource gives it, as the scheduler sees them."""

from collections.abc import Mapping

from msgspec.structs import replace

from edl.api.job_view import Installation, JobView, Role
from edl.api.kubernetes.meta import EMPTY
from edl.api.status import Scale
from edl.jobs.core.view import JobTraits, build_view
from edl.jobs.easydl.defaults import with_defaults
from edl.jobs.easydl.followed_plan import WORKER, counted_role
from edl.jobs.easydl.job_resource import JobResource
from edl.jobs.easydl.plan_author import urgent_edit
from edl.jobs.easydl.roles import EasydlRoles
from edl.jobs.easydl.types import GROUP, PLURAL, SHORT_NAME, ElasticJob


def easydl_view(
    job: ElasticJob,
    /,
    *,
    companion: JobResource | None = None,
    installation: Installation | None = None,
    priority_classes: Mapping[str, int] = EMPTY,
) -> JobView:
    """`companion`: the JobResource that rules the job."""
    job = with_defaults(job)
    roles = EasydlRoles(job, companion, installation or Installation()).all()
    lead = next(role for role in roles if role.lead)
    scale = _scale(job, lead)
    traits = JobTraits(
        resource=f"{PLURAL}.{GROUP}",
        tag=SHORT_NAME,
        roles=roles,
        scale=scale,
        edit=urgent_edit(companion),
        reached=_plan_has_run(job, scale) if lead.name == WORKER else None,
    )
    return build_view(job, traits, priority_classes)


def _plan_has_run(job: ElasticJob, scale: Scale) -> bool:
    """A job whose trainer runs is running, though nothing that a plan asks for ever was."""
    return job.status.minimum_reached or scale.pod_seconds > 0


def _scale(job: ElasticJob, lead: Role) -> Scale:
    """What was granted in another role than the one that leads now says nothing about that."""
    scale = job.status.scale or Scale()
    if counted_role(job.status.plan) != lead.name:
        return replace(scale, target=None, roles=None, roles_in_force=None, last_scale_time=None)
    return scale
