"""The view of a TrainingJob: its roles and sizes as the scheduler sees them."""

from collections.abc import Mapping

from edl.api.job_view import Installation, JobView
from edl.api.kubernetes.meta import EMPTY
from edl.jobs.core.view import JobTraits, build_view
from edl.jobs.training.defaults import with_defaults
from edl.jobs.training.roles import training_roles
from edl.jobs.training.types import GROUP, PLURAL, SHORT_NAME, TrainingJob, TrainingScale

NO_MASTER = "it has no master (spec.master)"


def training_view(
    job: TrainingJob,
    /,
    *,
    companion: None = None,
    installation: Installation | None = None,
    priority_classes: Mapping[str, int] = EMPTY,
) -> JobView:
    job = with_defaults(job)
    spec = job.spec
    traits = JobTraits(
        resource=f"{PLURAL}.{GROUP}",
        tag=SHORT_NAME,
        roles=training_roles(job, installation or Installation()),
        scale=job.status.scale_status or TrainingScale(),
        replicas=spec.trainer.replicas,
        fixed=NO_MASTER if spec.master is None else "",
        pause=bool(spec.pause),
        priority=spec.priority,
        freezing_window=spec.freezing_window,
    )
    return build_view(job, traits, priority_classes)
