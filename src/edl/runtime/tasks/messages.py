"""Messages between trainers and the master: the calls that a master answers, and their answers.

A trainer keeps several connections: one asks for tasks, one reports on them, one sends heartbeats. Where a name on the
wire differs from the attribute, the field says so.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import field

FAILED = "failed"
"""Code of a refusal: the job cannot go on, the message says why."""

Wait = Annotated[float, msgspec.Meta(ge=0, le=60)]


class LeasedTask(msgspec.Struct, frozen=True, array_like=True):
    """A task and its lease, as the holder names them. Means the same to every master of the job."""

    lease: int
    era: int
    pass_index: int
    chunk: int


class Hello(msgspec.Struct, tag="hello"):
    """The first call on every connection. `trainer` is a random number of the process. When its heartbeat connection
    ends, the trainer counts as lost."""

    trainer: int
    pod: str
    heartbeat: bool = field(default=False, name="courier")


class Welcome(msgspec.Struct):
    epoch: int  # of the master; a trainer that has seen a newer one disconnects
    term: float  # seconds that a lease lasts unless it is renewed


class GetTask(msgspec.Struct, tag="get"):
    """Requests a task. The first trainer's call fixes chunks and passes; another number of chunks is refused."""

    chunks: int
    passes: int
    wait: Wait = 0.0
    records: int = 0  # in all chunks; 0: unknown


class Assignment(msgspec.Struct):
    """`kind` is task, wait (ask again; `reason` says for what), end (all passes are done), leave (this pod is being
    terminated) or failed (`reason` says why the job cannot go on)."""

    kind: Literal["task", "wait", "end", "leave", "failed"] = field(name="what")
    task: LeasedTask | None = field(default=None, name="holding")
    reason: str = ""
    passes: int = 0


class Heartbeat(msgspec.Struct, tag="beat"):
    """Renews leases and reports what was trained since the last heartbeat."""

    tasks: list[LeasedTask] = field(name="holdings")
    samples: float = 0.0
    loss: float | None = None


class HeartbeatReply(msgspec.Struct):
    lost: list[int]  # leases that this trainer no longer holds


class Done(msgspec.Struct, tag="done"):
    tasks: list[LeasedTask] = field(name="holdings")


class Acknowledged(msgspec.Struct):
    """Sent once the completions are durable in the job service: per task the number of the first checkpoint with it, 0
    if it does not count as done by its lease. It stays done if that checkpoint or a later one is restored."""

    checkpoints: list[int]


class GiveBack(msgspec.Struct, tag="give_back"):
    task: LeasedTask = field(name="holding")


class Fail(msgspec.Struct, tag="fail"):
    task: LeasedTask = field(name="holding")
    reason: str


class FindParameters(msgspec.Struct, tag="find"):
    """Asks for the parameter servers. Waits until they are usable, or until this trainer must initialise them. Refused
    with FAILED when the job has failed: a trainer inside a task hears of it nowhere else."""

    model: str  # digest
    wait: Wait = 0.0


class ParameterLocations(msgspec.Struct):
    kind: Literal["ready", "initialise", "wait"] = field(name="what")
    era: int = 0
    addresses: list[str] = []
    reason: str = ""


class Initialised(msgspec.Struct, tag="initialised"):
    """All shards of this era have start values; the master checks them at once."""

    era: int


class GetStats(msgspec.Struct, tag="stat"):
    pass


class QueueStats(msgspec.Struct):
    """State of the queue. `checkpoint` is the newest complete one; `rollbacks` are (era begun, checkpoint restored);
    `gate` says why no task is leased, empty if tasks are."""

    chunks: int
    passes: int
    pass_index: int
    done: int
    leased: int
    era: int
    checkpoint: int
    rollbacks: list[tuple[int, int]]
    trainers: int
    gate: str
    ended: bool
    failed: str


Message = Hello | GetTask | Heartbeat | Done | GiveBack | Fail | FindParameters | Initialised | GetStats
