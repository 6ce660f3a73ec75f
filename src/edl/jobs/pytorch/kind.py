"""The row of PyTorch's ElasticJob."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from edl.api.status import ElasticStatus
from edl.jobs.core.kind import AGE, PROGRESS, Column, JobKind, ScalePaths
from edl.jobs.core.pods.slot_names import slot_name
from edl.jobs.core.pods.torchrun import run_id
from edl.jobs.pytorch.defaults import with_defaults
from edl.jobs.pytorch.types import GROUP, PLURAL, SHORT_NAME, ElasticJob
from edl.jobs.pytorch.types import KIND as NAME
from edl.jobs.pytorch.validation import problems
from edl.jobs.pytorch.view import pytorch_view

if TYPE_CHECKING:
    from edl.jobs.core.outcome import Outcome
    from edl.jobs.core.request import ReconcileRequest

_SCALE = ".status.scale"
_REPLICAS = ".spec.replicaSpecs.Worker.replicas"


def _roles(status: ElasticStatus) -> Mapping[str, int]:
    return {role.lower(): one.desired for role, one in (status.replica_statuses or {}).items()}


def _reconcile(request: "ReconcileRequest[ElasticJob]") -> "Outcome":
    from edl.jobs.pytorch.reconcile import reconcile

    return reconcile(request)


KIND: JobKind = JobKind(
    name=NAME,
    group=GROUP,
    versions=("v1alpha1",),
    plural=PLURAL,
    singular="elasticjob",
    short_names=(SHORT_NAME,),
    type=ElasticJob,
    columns=(
        Column("Phase", ".status.phase"),
        Column("Now", f"{_SCALE}.current", "integer"),
        Column("Target", f"{_SCALE}.target", "integer"),
        Column("Min", ".spec.minReplicas", "integer"),
        Column("Max", ".spec.maxReplicas", "integer"),
        *PROGRESS,
        Column("Reason", f"{_SCALE}.reason"),
        AGE,
    ),
    scale_paths=ScalePaths(_REPLICAS, f"{_SCALE}.current", f"{_SCALE}.selector"),
    default=with_defaults,
    validate=problems,
    status=ElasticStatus,
    fails_fast=True,
    max_field="maxReplicas",
    view=pytorch_view,
    reconcile=_reconcile,
    roles=_roles,
    address=slot_name,
    component="elastic-job-controller",
    run=lambda uid, status: run_id(uid, status.attempt),
    bounds=lambda job: (job.least, job.spec.max_replicas),
)
