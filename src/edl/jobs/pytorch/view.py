"""The view of a PyTorch ElasticJob: its workers and sizes as the scheduler sees them."""

from collections.abc import Mapping

from edl.api.job_view import Installation, JobView, Role
from edl.api.kubernetes.meta import EMPTY
from edl.api.kubernetes.templates import whole_template
from edl.api.status import Scale
from edl.jobs.core.view import JobTraits, build_view
from edl.jobs.pytorch.defaults import with_defaults
from edl.jobs.pytorch.environment import WORKER
from edl.jobs.pytorch.types import GROUP, PLURAL, SHORT_NAME, ElasticJob, ElasticJobSpec


def pytorch_view(
    job: ElasticJob,
    /,
    *,
    companion: None = None,
    installation: Installation | None = None,
    priority_classes: Mapping[str, int] = EMPTY,
) -> JobView:
    job = with_defaults(job)
    traits = JobTraits(
        resource=f"{PLURAL}.{GROUP}",
        tag=SHORT_NAME,
        roles=(_worker(job.spec),),
        scale=job.status.scale or Scale(),
        replicas=job.spec.replica_specs.worker.replicas,
    )
    return build_view(job, traits, priority_classes)


def _worker(spec: ElasticJobSpec) -> Role:
    least, most = spec.min_replicas or 1, spec.max_replicas or 1
    template = whole_template(spec.replica_specs.worker.template)
    wished = spec.scheduling_policy.priority_class if spec.scheduling_policy is not None else None
    if wished and not template["spec"].get("priorityClassName"):
        template = dict(template, spec=dict(template["spec"], priorityClassName=wished))
    return Role(name=WORKER, min=least, max=most, sizes=(least, most), lead=True, template=template)
