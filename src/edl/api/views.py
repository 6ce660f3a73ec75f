"""From a job of any kind to its `JobView`. Takes valid objects; defaults them itself."""

from collections.abc import Mapping

import msgspec

from edl.api import annotations, duration, pytorch_job, timestamp
from edl.api.defaults import default
from edl.api.easydl_job import ElasticJob as EasydlJob
from edl.api.easydl_plan import counted
from edl.api.easydl_plan import ruling as resource_of
from edl.api.easydl_roles import EasydlRoles
from edl.api.job_resource import JobResource
from edl.api.kinds import kind_of
from edl.api.meta import EMPTY
from edl.api.pytorch_job import ElasticJob as PytorchJob
from edl.api.roles import Installation, JobView, Role
from edl.api.status import Scale
from edl.api.templates import whole_template
from edl.api.training_job import TrainingJob, TrainingScale
from edl.api.training_roles import training_roles

__all__ = ["Job", "resource_of", "view"]

Job = TrainingJob | PytorchJob | EasydlJob

NO_MASTER = "it has no master (spec.master)"
PINNED = "it is pinned (edl.dev/pin)"


class _Sizes(msgspec.Struct, frozen=True):
    least: int
    most: int
    start: int
    allowed: tuple[int, ...] = ()
    fixed: str = ""


def view(
    job: Job,
    *,
    resource: JobResource | None = None,
    installation: Installation | None = None,
    priority_classes: Mapping[str, int] = EMPTY,
) -> JobView:
    """`resource`: the plan of an EasyDL job, see `resource_of`. `priority_classes`: values by name, where known."""
    job = default(job)
    roles = _roles(job, resource, installation or Installation())
    lead = next(role for role in roles if role.lead)
    return _assembled(job, roles, lead, _sizes(job, lead), _priority(job, lead, priority_classes))


def _assembled(job: Job, roles: tuple[Role, ...], lead: Role, sizes: _Sizes, priority: tuple[int, str]) -> JobView:
    notes, meta = job.metadata.annotations, job.metadata
    scale = _scale(job, lead)
    return JobView(
        kind=job.kind,
        api_version=job.api_version,
        resource=kind_of(job).crd_name,
        tag=kind_of(job).short_names[0],
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        generation=meta.generation,
        creation_timestamp=meta.creation_timestamp,
        deletion_timestamp=meta.deletion_timestamp,
        priority=priority[0],
        priority_source=priority[1],
        priority_class=_class_name(lead),
        freezing_window=_freezing_window(job),
        pause=_flag(notes, annotations.PAUSE) or (isinstance(job, TrainingJob) and bool(job.spec.pause)),
        pin=_flag(notes, annotations.PIN),
        suspend=bool(job.spec.suspend),
        admission=notes.get(annotations.ADMISSION, "hold"),
        min=sizes.least,
        max=sizes.most,
        start=sizes.start,
        sizes=sizes.allowed,
        fixed=sizes.fixed,
        current=scale.current,
        target=scale.target,
        last_scale_time=_moment(scale.last_scale_time),
        pod_seconds=scale.pod_seconds,
        rescale_seconds=scale.rescale_seconds,
        phase=job.status.phase,
        finished=job.status.finished,
        roles=roles,
    )


def _scale(job: Job, lead: Role) -> Scale | TrainingScale:
    """What was granted in another role than the one that leads now says nothing about that."""
    if isinstance(job, TrainingJob):
        return job.status.scale_status or Scale()
    scale = job.status.scale or Scale()
    if isinstance(job, EasydlJob) and counted(job.status.plan) != lead.name:
        return msgspec.structs.replace(scale, target=None, last_scale_time=None)
    return scale


def _roles(job: Job, resource: JobResource | None, installation: Installation) -> tuple[Role, ...]:
    if isinstance(job, TrainingJob):
        return training_roles(job, installation)
    if isinstance(job, EasydlJob):
        return EasydlRoles(job, resource, installation).all()
    return (_pytorch_role(job.spec),)


def _pytorch_role(spec: pytorch_job.ElasticJobSpec) -> Role:
    least, most = spec.min_replicas or 1, spec.max_replicas or 1
    template = whole_template(spec.replica_specs.worker.template)
    wished = spec.scheduling_policy.priority_class if spec.scheduling_policy is not None else None
    if wished and not template["spec"].get("priorityClassName"):
        template = dict(template, spec=dict(template["spec"], priorityClassName=wished))
    return Role(name="worker", min=least, max=most, sizes=(least, most), lead=True, template=template)


def _sizes(job: Job, lead: Role) -> _Sizes:
    allowed = _allowed(job.metadata.annotations, lead)
    replicas = _replicas(job) or lead.min
    start = max((size for size in allowed if size <= replicas), default=allowed[0]) if allowed else replicas
    if lead.elastic and (reason := _fixed(job)):
        return _Sizes(start, start, start, fixed=reason)
    return _Sizes(allowed[0], allowed[-1], start, allowed) if allowed else _Sizes(lead.min, lead.max, start)


def _fixed(job: Job) -> str:
    if _flag(job.metadata.annotations, annotations.PIN):
        return PINNED
    return NO_MASTER if isinstance(job, TrainingJob) and job.spec.master is None else ""


def _replicas(job: Job) -> int | None:
    if isinstance(job, TrainingJob):
        return job.spec.trainer.replicas
    return job.spec.replica_specs.worker.replicas if isinstance(job, PytorchJob) else None


def _allowed(notes: Mapping[str, str], lead: Role) -> tuple[int, ...]:
    try:
        sizes = annotations.sizes(notes[annotations.SIZES])
    except (KeyError, ValueError):
        return ()
    return tuple(size for size in sizes if lead.min <= size <= lead.max)


def _flag(notes: Mapping[str, str], name: str) -> bool:
    return notes.get(name) == "true"


def _freezing_window(job: Job) -> float | None:
    text = job.spec.freezing_window if isinstance(job, TrainingJob) else None
    text = text or job.metadata.annotations.get(annotations.FREEZING_WINDOW)
    try:
        return max(0.0, duration.seconds(text)) if text else None
    except ValueError:
        return None


def _priority(job: Job, lead: Role, classes: Mapping[str, int]) -> tuple[int, str]:
    """What the job says of itself counts before the class of its pods, and that before the default."""
    written = (
        ("spec.priority", job.spec.priority if isinstance(job, TrainingJob) else None),
        (annotations.PRIORITY, job.metadata.annotations.get(annotations.PRIORITY)),
    )
    for source, value in written:
        try:
            if value is not None:
                return annotations.priority(value), source
        except ValueError:
            continue
    class_name = _class_name(lead)
    if class_name in classes:
        return max(1, classes[class_name]), f"priorityClassName {class_name}"
    return annotations.NORMAL, "default"


def _class_name(lead: Role) -> str:
    return str(lead.template["spec"].get("priorityClassName") or "")


def _moment(text: str | None) -> float | None:
    try:
        return timestamp.seconds(text) if text else None
    except (ValueError, OverflowError):
        return None
