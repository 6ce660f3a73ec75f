"""The calls that a master answers. A trainer keeps two connections: one asks for work, the courier's reports on it."""

from typing import Annotated, Literal

import msgspec

Wait = Annotated[float, msgspec.Meta(ge=0, le=60)]


class Holding(msgspec.Struct, frozen=True, array_like=True):
    """A leased task as its holder knows it, in terms that mean the same to every master of the job."""

    lease: int
    era: int
    pass_index: int
    chunk: int


class Hello(msgspec.Struct, tag="hello"):
    """First on every connection. `trainer` is a random number of the process; when its courier's connection ends, the
    trainer counts as lost."""

    trainer: int
    pod: str
    courier: bool = False


class Welcome(msgspec.Struct):
    epoch: int  # a trainer that has seen a newer master leaves this one
    term: float  # seconds that a lease lasts unless it is renewed


class Get(msgspec.Struct, tag="get"):
    """The first trainer's word decides how much there is to do; another number of chunks is refused."""

    chunks: int
    passes: int
    wait: Wait = 0.0
    records: int = 0  # in all chunks; 0: the script did not say


class Assignment(msgspec.Struct):
    """`what` is task, wait (ask again, `reason` says for what), end (all passes are done), leave (this pod was asked to
    go) or failed (`reason` says why the job cannot go on)."""

    what: Literal["task", "wait", "end", "leave", "failed"]
    holding: Holding | None = None
    reason: str = ""
    passes: int = 0


class Beat(msgspec.Struct, tag="beat"):
    """Renews leases and reports what was trained since the last beat."""

    holdings: list[Holding]
    samples: float = 0.0
    loss: float | None = None


class Beaten(msgspec.Struct):
    lost: list[int]  # leases that are no longer this trainer's


class Done(msgspec.Struct, tag="done"):
    holdings: list[Holding]


class Acknowledged(msgspec.Struct):
    """Answered when it is durable in the job service: for each task 0 if it does not count as done by its lease, else
    the number of the first checkpoint that has it. It stays done if that one or a later one is ever restored."""

    checkpoints: list[int]


class GiveBack(msgspec.Struct, tag="give_back"):
    holding: Holding


class Fail(msgspec.Struct, tag="fail"):
    holding: Holding
    reason: str


class Find(msgspec.Struct, tag="find"):
    """Where the parameters are. Waits until they can be used, or until this trainer must initialise them."""

    model: str  # digest
    wait: Wait = 0.0


class Found(msgspec.Struct):
    what: Literal["ready", "initialise", "wait"]
    era: int = 0
    addresses: list[str] = []
    reason: str = ""


class Initialised(msgspec.Struct, tag="initialised"):
    """All shards of this era have start values; the master need not wait for its next look at them."""

    era: int


class Stat(msgspec.Struct, tag="stat"):
    pass


class Stats(msgspec.Struct):
    """`checkpoint` is the newest complete one; `rollbacks` are (era begun, checkpoint restored)."""

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


Message = Hello | Get | Beat | Done | GiveBack | Fail | Find | Initialised | Stat
