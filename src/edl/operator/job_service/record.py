"""What the operator tells the service about a job, and what the job tells the operator."""

from collections.abc import Sequence
from typing import Protocol

import msgspec


class RoleRecord(msgspec.Struct, frozen=True):
    """`replicas` is how many the role should have; `addresses` are the stable names of its slots."""

    replicas: int
    addresses: tuple[str, ...] = ()


class JobRecord(msgspec.Struct, frozen=True):
    """`pods` names every pod of the job that exists and is not terminal (None: not known yet); `leaving` those of
    them that were asked to go; `owner` is the ownerReference that what we store for the job carries."""

    uid: str
    token: str
    tag: str = "edl"
    """Short name of its kind: jobs of two kinds may have one name."""
    phase: str = ""
    size: int = 0
    target: int = 0
    roles: dict[str, RoleRecord] = {}
    leaving: tuple[str, ...] = ()
    pods: frozenset[str] | None = None
    owner: dict[str, str | bool] = {}
    stamp: str = ""
    """Differs when something else about the job does that calls may wait for."""
    bounds: tuple[int, int] | None = None
    """The smallest and largest size that the user allows now; None: pods have been told for good."""
    run: str = ""
    """Which attempt's agents may meet in the rendezvous; empty if the operator does not say."""


class Jobs(Protocol):
    """The present records of the jobs of a name, one for each kind at most. Called often: answers from memory."""

    def __call__(self, namespace: str, name: str) -> Sequence[JobRecord]: ...


class Progress(msgspec.Struct, omit_defaults=True, rename={"pass_index": "pass"}):
    """The last report of a job; what it never reported is None."""

    throughput: float | None = None
    workers: int | None = None
    """That trained at this pace together."""
    loss: float | None = None
    pass_index: int | None = None
    passes: int | None = None
    done: int | None = None
    total: int | None = None
    pause: float | None = None

    def updated(self, newer: "Progress") -> "Progress":
        news = {field: value for field in self.__struct_fields__ if (value := getattr(newer, field)) is not None}
        return msgspec.structs.replace(self, **news)
