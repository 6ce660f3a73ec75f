"""The history of jobs and of the cluster, as the operator posts it to the Brain and as everybody reads it there.

All kinds of jobs are in it, and it outlives them. Points in time are seconds since 1970. Everything may be posted
again: a job is keyed by its uid, what happened to it by its time.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from edl.ledger.amounts import NOTHING, Amounts
from edl.ledger.job_account import JobAccount
from edl.ledger.uses import CapacityUse

MANIFEST_LIMIT = 64 << 10
LINES_LIMIT = 16 << 10
JOBS_AT_ONCE = 1000

Name = Annotated[str, Meta(min_length=1, max_length=253, pattern=r"^[-._A-Za-z0-9]+$")]
Text = Annotated[str, Meta(max_length=4096)]
Moment = Annotated[float, Meta(ge=0, le=1e11)]


class SizeChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """The scheduler gave the job another size. `code` is the stable code of the reason."""

    time: Moment
    before: int
    to: int
    code: Annotated[str, Meta(max_length=64)] = ""
    reason: Text = ""


class ProgressPoint(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far the training was, as the job said, and with how many instances."""

    time: Moment
    size: int = 0
    target: int = 0
    done: int | None = None
    total: int | None = None
    epoch: float | None = None
    loss: float | None = None
    throughput: float | None = None
    """Samples per second."""
    pause: float | None = None
    """Seconds that the last change of size stopped training."""


class KeptEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """An Event of the job. `type` is Normal or Warning."""

    time: Moment
    type: Annotated[str, Meta(max_length=16)]
    reason: Annotated[str, Meta(max_length=128)]
    message: Text = ""


class HistoryLine(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One job in a list. `outcome` is empty while it lives, else succeeded, failed or deleted."""

    uid: Name
    kind: Name
    """<plural>.<group>, as Kubernetes names it."""
    namespace: Name
    name: Name
    created: Moment
    updated: Moment = 0.0
    """What the operator last said of it."""
    ended: Moment | None = None
    outcome: Annotated[str, Meta(max_length=16)] = ""
    phase: Annotated[str, Meta(max_length=32)] = ""
    reason: Text = ""
    """Why it ended, is in its phase, or waits."""
    size: int = 0
    target: int = 0
    priority: int = 0
    account: JobAccount


class JobNews(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What is new of one job since it was last posted. `manifest` (JSON) and `last_lines` are empty if unchanged."""

    job: HistoryLine
    manifest: Annotated[str, Meta(max_length=MANIFEST_LIMIT)] = ""
    last_lines: Annotated[str, Meta(max_length=LINES_LIMIT)] = ""
    sizes: Annotated[tuple[SizeChange, ...], Meta(max_length=1000)] = ()
    points: Annotated[tuple[ProgressPoint, ...], Meta(max_length=1000)] = ()
    events: Annotated[tuple[KeptEvent, ...], Meta(max_length=1000)] = ()


class ClusterPoint(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The capacity of usable nodes during the `seconds` before `time`: the mean of each use; they add up to
    `capacity`. `instances` of an amount counts pods of jobs. `largest` are the jobs (NAMESPACE/NAME) that used most."""

    time: Moment
    seconds: float
    capacity: Amounts = NOTHING
    uses: dict[CapacityUse, Amounts] = {}
    largest: Annotated[dict[str, Amounts], Meta(max_length=32)] = {}
    waiting: int = 0
    """Jobs that wait."""
    estimated: bool = False


class HistoryBatch(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of POST /v1/history."""

    jobs: Annotated[tuple[JobNews, ...], Meta(max_length=JOBS_AT_ONCE)] = ()
    cluster: Annotated[tuple[ClusterPoint, ...], Meta(max_length=1000)] = ()


class JobPast(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Everything that is kept of one job, oldest first. `accounts` are cumulative, one for each hour."""

    job: HistoryLine
    manifest: str = ""
    last_lines: str = ""
    sizes: tuple[SizeChange, ...] = ()
    points: tuple[ProgressPoint, ...] = ()
    events: tuple[KeptEvent, ...] = ()
    accounts: tuple[JobAccount, ...] = ()
