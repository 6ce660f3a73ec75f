"""The rows of EasyDL's ElasticJob and of JobResource, which says how large one is."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from edl.jobs.core.kind import AGE, PROGRESS, Access, Column, Companion, JobKind, Kind, ScalePaths
from edl.jobs.core.pods.torchrun import run_id
from edl.jobs.easydl import job_resource
from edl.jobs.easydl.defaults import with_defaults
from edl.jobs.easydl.environment import slot_address
from edl.jobs.easydl.followed_plan import counts_size, resource_in_effect
from edl.jobs.easydl.job_resource import JobResource, JobResourceStatus
from edl.jobs.easydl.job_resource_validation import problems as job_resource_problems
from edl.jobs.easydl.plan_author import author_notes
from edl.jobs.easydl.types import GROUP, PLURAL, SHORT_NAME, EasydlStatus, ElasticJob
from edl.jobs.easydl.types import KIND as NAME
from edl.jobs.easydl.validation import problems
from edl.jobs.easydl.view import easydl_view

if TYPE_CHECKING:
    from edl.api.schema.problem import Problem
    from edl.jobs.core.actions import Change
    from edl.jobs.core.outcome import Outcome
    from edl.jobs.core.request import ReconcileRequest

_SCALE = ".status.scale"


def named_job(spec: Any) -> str:
    """The job that a JobResource names, empty if it cannot be made out."""
    selector = spec.get("selector") if isinstance(spec, Mapping) else None
    name = selector.get("name") if isinstance(selector, Mapping) else None
    return name if isinstance(name, str) else ""


def _roles(status: EasydlStatus) -> Mapping[str, int]:
    return {role: counts.desired for role, counts in (status.replica_statuses or {}).items()}


def _reconcile(request: "ReconcileRequest[ElasticJob]") -> "Outcome":
    from edl.jobs.easydl.reconcile import reconcile

    return reconcile(request)


def _refused(old: JobResourceStatus, problems: "Iterable[Problem]", generation: int, now: float) -> JobResourceStatus:
    from edl.jobs.easydl.job_resource_status import refused_spec

    return refused_spec(old, problems, generation, now)


def _without_job(plan: JobResource, exists: bool, now: float) -> "Change | None":
    from edl.jobs.easydl.job_resource_status import without_job

    return without_job(plan, exists, now)


JOB_RESOURCE = Kind(
    name=job_resource.KIND,
    group=job_resource.GROUP,
    versions=("v1alpha1",),
    plural="jobresources",
    singular="jobresource",
    short_names=("jr",),
    type=JobResource,
    status=JobResourceStatus,
    columns=(
        Column("Job", ".spec.selector.name"),
        Column("PS", ".spec.parameter_server.replicas", "integer"),
        Column("Workers", ".spec.worker.replicas", "integer"),
        Column("Granted", ".status.granted.worker", "integer"),
        Column("Reason", ".status.reason"),
        AGE,
    ),
    scale_paths=ScalePaths(".spec.worker.replicas", ".status.granted.worker"),
    access=(
        Access(
            ("list", "watch", "get", "create", "update"),
            "to follow plans of EasyDL jobs, and write down handed-in ones",
        ),
        Access(("patch",), "to say what became of a plan", "status"),
    ),
    validate=job_resource_problems,
)

KIND: JobKind = JobKind(
    name=NAME,
    group=GROUP,
    versions=("v1alpha1",),
    plural=PLURAL,
    singular="easydljob",
    short_names=(SHORT_NAME,),
    type=ElasticJob,
    columns=(
        Column("Phase", ".status.phase"),
        Column("Strategy", ".spec.distributionStrategy"),
        Column("Now", f"{_SCALE}.current", "integer"),
        Column("Target", f"{_SCALE}.target", "integer"),
        Column("Max", ".status.plan.roles.worker.replicas", "integer"),
        *PROGRESS,
        Column("Reason", f"{_SCALE}.reason"),
        AGE,
    ),
    default=with_defaults,
    validate=problems,
    status=EasydlStatus,
    max_field="worker.replicas",
    view=easydl_view,
    reconcile=_reconcile,
    fails_fast=True,
    roles=_roles,
    address=slot_address,
    run=lambda uid, status: run_id(uid, status.attempt),
    granted=counts_size,
    companion=Companion(
        kind=JOB_RESOURCE,
        names_job=named_job,
        select=resource_in_effect,
        refused=_refused,
        without_job=_without_job,
        author_notes=author_notes,
    ),
)
