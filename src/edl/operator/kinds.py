"""The kinds of job that the operator looks after: one row each. Nothing else in the operator knows one from another."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from edl.api import kinds
from edl.api.easydl_job import EasydlStatus
from edl.api.kinds import Kind
from edl.api.status import ElasticStatus, Scale
from edl.api.training_job import TrainingJobStatus, TrainingScale
from edl.api.training_roles import TRAINER
from edl.jobs.easydl_environment import slot_address as easydl_address
from edl.jobs.easydl_job import about_its_size, easydl_look
from edl.jobs.grant import Grant
from edl.jobs.look import Look
from edl.jobs.outcome import Outcome
from edl.jobs.pytorch_environment import run_id
from edl.jobs.pytorch_job import PytorchLook
from edl.jobs.slots import slot_name
from edl.jobs.training_job import TrainingLook
from edl.kube.resource import Resource
from edl.operator.resources import resource_of


class JobKey(NamedTuple):
    """A job by name. Two kinds may each have one of the same name; `kind` is a JobKind's."""

    kind: str
    namespace: str
    name: str


class JobKind(msgspec.Struct, frozen=True, kw_only=True):
    """`kind` is its row in the API's registry, which has its type and its names."""

    kind: Kind
    status: type[Any]
    look: Callable[[Look[Any]], Outcome]
    scale_field: str
    """The member of its status that holds the scheduling facts."""
    roles: Callable[[Any], Mapping[str, int]]
    """From a status to the pods that each role should have."""
    address: Callable[[str, str, int], str]
    """From job, role and index to the name by which others find that slot, empty if it says itself where it is."""
    granted: Callable[[Any, Grant], bool] = lambda status, grant: True
    """Whether a grant is about what the size of a job with this status counts."""
    planned: bool = False
    """JobResources say how large it is."""
    component: str = "edl.dev/operator"
    """Who speaks in the job's Events."""
    run: Callable[[str, Any], str] = lambda uid, status: ""
    """From uid and status to the name under which the job's processes meet, empty if it does not matter."""
    bounds: Callable[[Any], tuple[int, int] | None] = lambda job: None
    """From a job to the sizes between which its processes may meet, None if nobody who meets has to know."""

    @property
    def name(self) -> str:
        return self.kind.crd_name

    @property
    def tag(self) -> str:
        """Short, for names of objects that jobs of several kinds have."""
        return self.kind.short_names[0]

    @property
    def resource(self) -> Resource:
        return resource_of(self.kind)

    def scale_of(self, status: Any) -> Scale | TrainingScale | None:
        scale: Scale | TrainingScale | None = getattr(status, self.scale_field)
        return scale

    def with_target(self, status: Any, target: int, when: str | None) -> Any:
        """The status as it will be once a grant is written."""
        empty = TrainingScale() if self.status is TrainingJobStatus else Scale()
        scale = replace(self.scale_of(status) or empty, target=target, last_scale_time=when)
        return replace(status, **{self.scale_field: scale})


def _training_look(look: Look[Any]) -> Outcome:
    return TrainingLook(look).outcome()


def _training_address(job: str, role: str, index: int) -> str:
    """Trainers have a name per slot. The others say where they are when they claim theirs."""
    return f"{slot_name(job, role, index)}.{job}-{role}" if role == TRAINER else ""


def _pytorch_look(look: Look[Any]) -> Outcome:
    return PytorchLook(look).outcome()


PYTORCH = JobKind(
    kind=kinds.PYTORCH_JOB,
    status=ElasticStatus,
    look=_pytorch_look,
    scale_field="scale",
    roles=lambda status: {role.lower(): one.desired for role, one in (status.replica_statuses or {}).items()},
    address=slot_name,
    component="elastic-job-controller",
    run=lambda uid, status: run_id(uid, status.attempt),
    bounds=lambda job: (job.spec.min_replicas, job.spec.max_replicas),
)

TRAINING = JobKind(
    kind=kinds.TRAINING_JOB,
    status=TrainingJobStatus,
    look=_training_look,
    scale_field="scale_status",
    roles=lambda status: {one.role: one.desired for one in status.replica_statuses},
    address=_training_address,
)

EASYDL = JobKind(
    kind=kinds.EASYDL_JOB,
    status=EasydlStatus,
    look=easydl_look,
    scale_field="scale",
    roles=lambda status: {role: counts.desired for role, counts in (status.replica_statuses or {}).items()},
    address=easydl_address,
    run=lambda uid, status: run_id(uid, status.attempt),
    granted=about_its_size,
    planned=True,
)

KINDS = (TRAINING, PYTORCH, EASYDL)
BY_NAME: Mapping[str, JobKind] = {kind.name: kind for kind in KINDS}
