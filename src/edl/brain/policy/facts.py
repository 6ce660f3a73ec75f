"""What is known when a plan is made: the job's features, what was measured, what went wrong, what there is room for."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from .units import WORKER, Cores, Count, Devices, Mebibytes, Resource, RolePlan

Positive = Annotated[float, Meta(ge=0, le=1e18)]
Word = Annotated[str, Meta(max_length=500)]
Time = Annotated[float, Meta(ge=0, le=1e11)]
Share = Annotated[float, Meta(ge=0, le=1)]
Roles = dict[str, RolePlan]

PARAMETER_SERVER: Literal["parameter_server"] = "parameter_server"
ALLREDUCE: Literal["ring-allreduce"] = "ring-allreduce"
OOM = "OOMKilled"


class Features(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a job is like before it has run. A number that is not known is 0, a word ''."""

    strategy: Literal["parameter_server", "ring-allreduce"] = PARAMETER_SERVER
    program: Word = ""  # the worker's command without numbers: the same program with another batch size is similar
    image: Word = ""
    namespace: Word = ""
    records: Positive = 0.0  # in one epoch of the data set
    epochs: Positive = 0.0
    batch: Positive = 0.0
    parameters: Positive = 0.0  # numbers in the model
    gpu: Devices = 0  # that a worker's template asks for
    evaluator: bool = False


class PodUse(msgspec.Struct, frozen=True, array_like=True):
    """What one pod used, and what it may use (0: not known or not limited)."""

    cpu: Cores = 0.0
    memory: Mebibytes = 0
    cpu_limit: Cores = 0.0
    memory_limit: Mebibytes = 0


class Sample(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stretch of training during which nobody came or went. `pods` by slot: worker-0, ps-1."""

    time: Time  # at its end
    seconds: Positive
    workers: Count
    throughput: Positive
    servers: Count = 0
    pods: dict[str, PodUse] = {}

    def of(self, role: str) -> list[PodUse]:
        return [use for slot, use in self.pods.items() if slot.rpartition("-")[0] == role]


class Incident(msgspec.Struct, frozen=True, omit_defaults=True):
    """A container that failed; `memory` is the limit that it had."""

    slot: Word
    reason: Word = ""
    time: Time = 0.0
    memory: Mebibytes = 0

    @property
    def role(self) -> str:
        return self.slot.rpartition("-")[0]


class Capacity(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the cluster has beside what this job holds; what others hold of it is the scheduler's to move."""

    cpu: Cores = 0.0
    memory: Mebibytes = 0
    gpu: Devices = 0


class Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """Sizes and resources by role (a role that is not named is left alone), single slots that get others, and why.

    `gain` is the throughput that it should bring, as a share of the present one; `expected` the throughput itself.
    """

    rule: Word
    reason: Annotated[str, Meta(max_length=2000)]
    roles: Roles = {}
    slots: dict[str, Resource] = {}
    confidence: Share = 0.0
    gain: float = 0.0
    expected: Positive = 0.0


class PlanRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A plan that was posted. `before`: throughput when it was; `obtained`: since, None until that is known.

    `verdict`: '' open, 'paid', 'not paid', 'taken back' (not paid and undone), or 'safety' (not made for speed).
    """

    number: int
    time: Time
    plan: Plan
    before: Positive = 0.0
    obtained: Positive | None = None
    verdict: Literal["", "paid", "not paid", "taken back", "safety"] = ""
    source: Literal["brain", "local"] = "brain"


class JobFacts(msgspec.Struct, frozen=True):
    """One job at the moment of a decision. Samples and plans are in order of time, newest last."""

    features: Features
    present: Roles
    slots: dict[str, Resource] = {}
    granted: dict[str, int] = {}
    samples: tuple[Sample, ...] = ()
    plans: tuple[PlanRecord, ...] = ()
    incidents: tuple[Incident, ...] = ()
    capacity: Capacity | None = None
    remaining: Positive = 0.0  # samples still to train; 0: not known
    pause: Positive = 0.0  # seconds that a change of size costs
    share: int | None = None  # workers that it may have beside other jobs; None: no other job wants the room

    def has(self, slot: str) -> bool:
        """Whether the present plan has such a slot; a sample may be of one that is gone."""
        role, _, index = slot.rpartition("-")
        return role in self.present and index.isdecimal() and int(index) < self.present[role].replicas

    @property
    def workers(self) -> RolePlan:
        return self.present.get(WORKER, RolePlan(0))
