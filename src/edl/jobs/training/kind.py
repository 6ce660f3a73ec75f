"""The row of TrainingJob."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from edl.jobs.core.kind import AGE, PROGRESS, Column, JobKind, ScalePaths
from edl.jobs.core.pods.slot_names import slot_name
from edl.jobs.training.defaults import with_defaults
from edl.jobs.training.roles import MASTER, PSERVER, TRAINER
from edl.jobs.training.types import (
    GROUP,
    PLURAL,
    SHORT_NAME,
    TrainingJob,
    TrainingJobSpec,
    TrainingJobStatus,
    TrainingScale,
)
from edl.jobs.training.types import KIND as NAME
from edl.jobs.training.validation import problems
from edl.jobs.training.view import training_view

if TYPE_CHECKING:
    from edl.api.schema.problem import Problem
    from edl.jobs.core.outcome import Outcome
    from edl.jobs.core.request import ReconcileRequest

_SCALE = ".status.scale_status"


def _address(job: str, role: str, index: int) -> str:
    """Trainers have a name per slot. The others say where they are when they claim theirs."""
    return f"{slot_name(job, role, index)}.{job}-{role}" if role == TRAINER else ""


def _roles(status: TrainingJobStatus) -> Mapping[str, int]:
    return {one.role: one.desired for one in status.replica_statuses}


def _reconcile(request: "ReconcileRequest[TrainingJob]") -> "Outcome":
    from edl.jobs.training.reconcile import reconcile

    return reconcile(request)


def _keep(begun: TrainingJobSpec, spec: TrainingJobSpec) -> "tuple[TrainingJobSpec, tuple[Problem, ...]]":
    from edl.jobs.training.edits import keep_begun

    return keep_begun(begun, spec)


KIND: JobKind = JobKind(
    name=NAME,
    group=GROUP,
    versions=("v1", "v1alpha1"),
    plural=PLURAL,
    singular="trainingjob",
    short_names=(SHORT_NAME,),
    is_restored=True,
    type=TrainingJob,
    columns=(
        Column("Phase", ".status.phase"),
        Column("Now", f"{_SCALE}.current", "integer"),
        Column("Target", f"{_SCALE}.target", "integer"),
        Column("Min", ".spec.trainer.min-instance", "integer"),
        Column("Max", ".spec.trainer.max-instance", "integer"),
        *PROGRESS,
        Column("Reason", f"{_SCALE}.reason"),
        Column("Priority", ".spec.priority", wide=True),
        AGE,
    ),
    scale_paths=ScalePaths(".spec.trainer.replicas", f"{_SCALE}.current", f"{_SCALE}.selector"),
    default=with_defaults,
    validate=problems,
    status=TrainingJobStatus,
    scale_type=TrainingScale,
    scale_field="scale_status",
    leading_role=TRAINER,
    guarded_roles=(MASTER, PSERVER),
    max_field="max-instance",
    view=training_view,
    keep=_keep,
    reconcile=_reconcile,
    roles=_roles,
    address=_address,
)
