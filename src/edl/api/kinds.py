"""The registry of our kinds: one row each, from which everything else is looked up."""

from typing import Any

import msgspec

from edl.api import easydl_job, job_resource, pytorch_job, training_job
from edl.api.easydl_job import ElasticJob as EasydlJob
from edl.api.job_resource import JobResource
from edl.api.pytorch_job import ElasticJob as PytorchJob
from edl.api.training_job import TrainingJob

EdlObject = TrainingJob | PytorchJob | EasydlJob | JobResource


class Column(msgspec.Struct, frozen=True):
    """A column of `kubectl get`."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False
    """Shown with `-o wide` only."""


class ScalePaths(msgspec.Struct, frozen=True):
    """Where `kubectl scale` and autoscalers read and write the size."""

    spec: str
    status: str
    selector: str = ""


class Kind(msgspec.Struct, frozen=True):
    name: str
    group: str
    versions: tuple[str, ...]
    """The first one is stored."""
    plural: str
    singular: str
    short_names: tuple[str, ...]
    type: type[Any]
    columns: tuple[Column, ...]
    scale: ScalePaths | None = None

    @property
    def api_versions(self) -> tuple[str, ...]:
        return tuple(f"{self.group}/{version}" for version in self.versions)

    @property
    def crd_name(self) -> str:
        return f"{self.plural}.{self.group}"


_AGE = Column("Age", ".metadata.creationTimestamp", "date")
_SCALE = ".status.scale"
_TRAINING_SCALE = ".status.scale_status"
_WORKER = ".spec.replicaSpecs.Worker.replicas"

TRAINING_JOB = Kind(
    name=training_job.KIND,
    group=training_job.GROUP,
    versions=("v1", "v1alpha1"),
    plural="trainingjobs",
    singular="trainingjob",
    short_names=("tj",),
    type=TrainingJob,
    columns=(
        Column("Phase", ".status.phase"),
        Column("Now", f"{_TRAINING_SCALE}.current", "integer"),
        Column("Target", f"{_TRAINING_SCALE}.target", "integer"),
        Column("Min", ".spec.trainer.min-instance", "integer"),
        Column("Max", ".spec.trainer.max-instance", "integer"),
        Column("Reason", f"{_TRAINING_SCALE}.reason"),
        Column("Priority", ".spec.priority", wide=True),
        _AGE,
    ),
    scale=ScalePaths(".spec.trainer.replicas", f"{_TRAINING_SCALE}.current", f"{_TRAINING_SCALE}.selector"),
)

PYTORCH_JOB = Kind(
    name=pytorch_job.KIND,
    group=pytorch_job.GROUP,
    versions=("v1alpha1",),
    plural="elasticjobs",
    singular="elasticjob",
    short_names=("ptej",),
    type=PytorchJob,
    columns=(
        Column("Phase", ".status.phase"),
        Column("Now", f"{_SCALE}.current", "integer"),
        Column("Target", f"{_SCALE}.target", "integer"),
        Column("Min", ".spec.minReplicas", "integer"),
        Column("Max", ".spec.maxReplicas", "integer"),
        Column("Reason", f"{_SCALE}.reason"),
        _AGE,
    ),
    scale=ScalePaths(_WORKER, f"{_SCALE}.current", f"{_SCALE}.selector"),
)

EASYDL_JOB = Kind(
    name=easydl_job.KIND,
    group=easydl_job.GROUP,
    versions=("v1alpha1",),
    plural="elasticjobs",
    singular="easydljob",
    short_names=("edlej",),
    type=EasydlJob,
    columns=(
        Column("Phase", ".status.phase"),
        Column("Strategy", ".spec.distributionStrategy"),
        Column("Now", f"{_SCALE}.current", "integer"),
        Column("Target", f"{_SCALE}.target", "integer"),
        Column("Max", ".status.plan.roles.worker.replicas", "integer"),
        Column("Reason", f"{_SCALE}.reason"),
        _AGE,
    ),
)

JOB_RESOURCE = Kind(
    name=job_resource.KIND,
    group=job_resource.GROUP,
    versions=("v1alpha1",),
    plural="jobresources",
    singular="jobresource",
    short_names=("jr",),
    type=JobResource,
    columns=(
        Column("Job", ".spec.selector.name"),
        Column("PS", ".spec.parameter_server.replicas", "integer"),
        Column("Workers", ".spec.worker.replicas", "integer"),
        Column("Granted", ".status.granted.worker", "integer"),
        Column("Reason", ".status.reason"),
        _AGE,
    ),
    scale=ScalePaths(".spec.worker.replicas", ".status.granted.worker"),
)

KINDS = (TRAINING_JOB, PYTORCH_JOB, EASYDL_JOB, JOB_RESOURCE)
BY_API_VERSION: dict[tuple[str, str], Kind] = {
    (api_version, kind.name): kind for kind in KINDS for api_version in kind.api_versions
}


def kind_of(value: EdlObject) -> Kind:
    return BY_API_VERSION[value.api_version, value.kind]
