"""Pods of a job as GET /pods lists them, and the usage that pods report of themselves. Cores and MiB."""

import contextlib

import msgspec
from msgspec import UNSET, UnsetType


class UsageReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of POST /usage."""

    pod: str
    cpu: float | None = None
    memory: float | None = None


class ReportedUsage(msgspec.Struct, frozen=True):
    """The last usage report and its age in seconds."""

    cpu: float | None = None
    memory: float | None = None
    age: float = 0.0


class PodResources(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the pod was given; None where it was given none."""

    cpu: float | None = None
    memory: float | None = None
    disk: float | None = None
    gpu: float | None = None


class PodExit(msgspec.Struct, frozen=True):
    code: int | None = None
    reason: str = ""
    message: str = ""


class PodReport(msgspec.Struct, frozen=True):
    """One pod. `state` is pending, running, succeeded, failed or lost; `oom`: it was killed for its memory.

    `usage` is unset until the answer is made: it is no part of the list's revision."""

    name: str = ""
    role: str = ""
    index: int = 0
    attempt: int = 0
    state: str = ""
    ready: bool = False
    leaving: bool = False
    node: str = ""
    address: str = ""
    resources: PodResources = PodResources()
    started: float | None = None
    exit: PodExit | None = None
    oom: bool = False
    reason: str = ""
    usage: ReportedUsage | UnsetType | None = UNSET


class PodList(msgspec.Struct, frozen=True):
    """The part that a revision is the digest of."""

    pods: list[PodReport] = []


class PodListAnswer(PodList, frozen=True):
    revision: str = ""

    @classmethod
    def decode(cls, body: bytes) -> "PodListAnswer":
        """A pod that cannot be read is left out: one strange pod must not hide the others."""
        try:
            return msgspec.json.decode(body, type=cls)
        except msgspec.ValidationError:
            raw = msgspec.json.decode(body, type=_AnyPods)
            return cls(readable(raw.pods), raw.revision)


class _AnyPods(msgspec.Struct):
    pods: object = None
    revision: str = ""


def readable(pods: object) -> list[PodReport]:
    found: list[PodReport] = []
    for pod in pods if isinstance(pods, list) else ():
        with contextlib.suppress(msgspec.ValidationError):
            found.append(msgspec.convert(pod, PodReport))
    return found
