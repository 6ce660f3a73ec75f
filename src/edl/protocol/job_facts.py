"""Facts that Brain decides on: a job's features, samples, plans and incidents, and the capacity beside it.

All but JobFacts are also stored and sent over HTTP: their field names are the format.
"""

from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from edl.protocol.resources import WORKER, Cores, Count, Devices, Mebibytes, Resource, RolePlan

Positive = Annotated[float, Meta(ge=0, le=1e18)]
ShortText = Annotated[str, Meta(max_length=500)]
Time = Annotated[float, Meta(ge=0, le=1e11)]
Share = Annotated[float, Meta(ge=0, le=1)]
Roles = Annotated[dict[str, RolePlan], Meta(max_length=16)]
Slots = Annotated[dict[str, Resource], Meta(max_length=10_000)]
PlanNumber = Annotated[int, Meta(ge=0, le=2**31 - 1)]

PARAMETER_SERVER: Literal["parameter_server"] = "parameter_server"
ALLREDUCE: Literal["ring-allreduce"] = "ring-allreduce"
OOM = "OOMKilled"


class Features(msgspec.Struct, frozen=True, omit_defaults=True):
    """A job's description before it has run. An unknown number is 0, an unknown text ''."""

    strategy: Literal["parameter_server", "ring-allreduce"] = PARAMETER_SERVER
    program: ShortText = ""  # the worker's command without numbers: the same program with another batch size is similar
    image: ShortText = ""
    namespace: ShortText = ""
    records: Positive = 0.0  # in one epoch of the data set
    epochs: Positive = 0.0
    batch: Positive = 0.0
    parameters: Positive = 0.0  # numbers in the model
    gpu: Devices = 0  # that a worker's template asks for
    evaluator: bool = False


class PodUsage(msgspec.Struct, frozen=True, array_like=True):
    """The usage and limits of one pod (0: not known or not limited)."""

    cpu: Cores = 0.0
    memory: Mebibytes = 0
    cpu_limit: Cores = 0.0
    memory_limit: Mebibytes = 0


class Sample(msgspec.Struct, frozen=True, omit_defaults=True):
    """An interval of training without a change of membership. `pods` by slot: worker-0, ps-1."""

    time: Time  # at its end
    seconds: Positive
    workers: Count
    throughput: Positive
    servers: Count = 0
    pods: Annotated[dict[str, PodUsage], Meta(max_length=10_000)] = {}

    def of(self, role: str) -> list[PodUsage]:
        return [use for slot, use in self.pods.items() if slot.rpartition("-")[0] == role]


class Incident(msgspec.Struct, frozen=True, omit_defaults=True):
    """A failed container; `memory` is the limit that it had."""

    slot: ShortText
    reason: ShortText = ""
    time: Time = 0.0
    memory: Mebibytes = 0

    @property
    def role(self) -> str:
        return self.slot.rpartition("-")[0]


class Capacity(msgspec.Struct, frozen=True, omit_defaults=True):
    """The cluster's resources beyond what this job holds, including those of other jobs: reclaiming them is up to the
    scheduler."""

    cpu: Cores = 0.0
    memory: Mebibytes = 0
    gpu: Devices = 0

    def without(self, pods: Iterable[tuple[int, Resource]]) -> "Capacity":
        """The rest when so many pods of these sizes are placed; never below 0."""
        held = list(pods)
        return Capacity(
            max(0.0, self.cpu - sum(count * (each.cpu or 0.0) for count, each in held)),
            max(0, self.memory - sum(count * (each.memory or 0) for count, each in held)),
            max(0, self.gpu - sum(count * (each.gpu or 0) for count, each in held)),
        )

    def fits(self, each: Resource) -> int | None:
        """How many pods of this size fit; None if it names no resource."""
        pairs = ((self.cpu, each.cpu), (self.memory, each.memory), (self.gpu, each.gpu))
        counts = [int(free // need) for free, need in pairs if need]
        return max(0, min(counts)) if counts else None


class Limits(msgspec.Struct, frozen=True, omit_defaults=True):
    """The most that a job's own trainer allows a plan to ask for. What is None is up to Brain."""

    max_workers: Count | None = None
    max_servers: Count | None = None
    max_cpu: Cores | None = None  # of one pod
    max_memory: Mebibytes | None = None  # of one pod


class ResourcePlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """Replicas and resources by role (a role that is not named stays), resources of single slots, and the reason.

    `gain` is the expected rise of throughput, as a share of the present one; `expected` the throughput itself.
    """

    rule: ShortText
    reason: Annotated[str, Meta(max_length=2000)]
    roles: Roles = {}
    slots: Slots = {}
    confidence: Share = 0.0
    gain: float = 0.0
    expected: Positive = 0.0


class PlanRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A posted plan. `before`: throughput when it was posted; `obtained`: since then, None until known.

    `verdict`: '' not evaluated, 'paid', 'not paid', 'taken back' (not paid and reverted), or 'safety' (not for speed).
    """

    number: PlanNumber
    time: Time
    plan: ResourcePlan
    before: Positive = 0.0
    obtained: Positive | None = None
    verdict: Literal["", "paid", "not paid", "taken back", "safety"] = ""
    source: Literal["brain", "local"] = "brain"


EvaluationResult = Literal["paid", "not paid", "taken back", "safety"]


class PlanEvaluation(msgspec.Struct, frozen=True):
    """The outcome of plan `number`: the throughput obtained, and whether the plan paid."""

    number: int
    obtained: float
    verdict: EvaluationResult


class JobFacts(msgspec.Struct, frozen=True):
    """One job at the moment of a decision. `present` is the plan in force, `granted` the replicas by role that the
    scheduler granted. Samples and plans are in order of time, newest last."""

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
    share: int | None = None  # workers that it may have beside competing jobs; None: no job competes

    def has(self, slot: str) -> bool:
        """Whether the present plan has this slot; a sample may contain slots that are gone."""
        role, _, index = slot.rpartition("-")
        return role in self.present and index.isdecimal() and int(index) < self.present[role].replicas

    @property
    def workers(self) -> RolePlan:
        return self.present.get(WORKER, RolePlan(0))
