"""The one unit system of plans: cores, MiB, MiB of disk, whole devices, seconds, samples per second.

They are JobResource's own units, so that nothing is ever converted on the way from a decision to a pod.
"""

import math
from typing import Annotated

import msgspec
from msgspec import Meta

Cores = Annotated[float, Meta(ge=0, le=4096)]
Mebibytes = Annotated[int, Meta(ge=0, le=1 << 32)]
Devices = Annotated[int, Meta(ge=0, le=1024)]
Count = Annotated[int, Meta(ge=0, le=100_000)]

WORKER, SERVER, EVALUATOR = "worker", "ps", "evaluator"
ROLES = (SERVER, WORKER, EVALUATOR)


class Resource(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of one pod. What is None is as in the job's template."""

    cpu: Cores | None = None
    memory: Mebibytes | None = None
    disk: Mebibytes | None = None
    gpu: Devices | None = None

    def over(self, under: "Resource") -> "Resource":
        """This, and what it does not name from `under`."""
        given = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}
        return msgspec.structs.replace(under, **given)


class RolePlan(msgspec.Struct, frozen=True):
    replicas: Count
    resource: Resource = Resource()


def cores(value: float) -> float:
    """Rounded up to a tenth of a core: a plan that differs by less is the same plan."""
    return max(0.1, math.ceil(value * 10 - 1e-6) / 10)


def mebibytes(value: float) -> int:
    """Rounded up to 64 MiB, for the same reason."""
    return max(64, math.ceil(value / 64 - 1e-6) * 64)
