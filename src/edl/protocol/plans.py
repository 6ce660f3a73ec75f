"""Resource plans of an EasyDL job: posting one, what was granted of it, and what a planner must know to make one.

A plan's `spec` is that of a JobResource without its selector. It stays a plain mapping here: the operator validates it
against the JobResource's own schema, and names the field and the fix.
"""

from typing import Any

import msgspec


class JobSpec(msgspec.Struct, frozen=True):
    """The answer of GET /spec: the job as its user wrote it."""

    spec: Any = None
    annotations: dict[str, str] = {}


class BrainAccess(msgspec.Struct, frozen=True):
    """The answer of GET /brain: where the Brain is, with a token for this job."""

    url: str
    token: str
    ca: str = ""
    logs: bool = False
    """Whether it wants the logs of pods, which would otherwise be gone with them."""


class PostedPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of POST /plan."""

    spec: dict[str, Any]
    reason: str = ""
    urgent: bool = False
    """An answer to a pod that ran out of memory: no freezing window holds it up."""


class PlanWritten(msgspec.Struct, frozen=True):
    """The answer of POST /plan, given when the JobResource is durable."""

    name: str
    generation: int
    changed: bool


class SlotUpdate(msgspec.Struct, frozen=True):
    """One slot that gets other resources. `state` is pending, replacing, resized, done or refused."""

    name: str = ""
    state: str = ""
    pod: str = ""
    reason: str = ""

    @property
    def in_flight(self) -> bool:
        return self.state in ("pending", "replacing")


class ClusterCapacity(msgspec.Struct, frozen=True):
    """Cores, MiB and devices of all usable nodes."""

    cpu: float = 0.0
    memory: int = 0
    gpu: int = 0


class PlanStatus(msgspec.Struct, frozen=True):
    """The JobResource that rules the job (`name` empty: none does) and what was made of generation `observed`.

    This is the part that a revision is the digest of."""

    name: str = ""
    generation: int = 0
    observed: int = 0
    spec: dict[str, Any] | None = None
    followed: bool = False
    granted: dict[str, int] = {}
    code: str = ""
    reason: str = ""
    updates: list[SlotUpdate] = []


class PlanAnswer(PlanStatus, frozen=True):
    """The answer of GET /plan."""

    capacity: ClusterCapacity | None = None
    revision: str = ""
