"""The calls that a parameter server answers. Numbers that follow as raw bytes are named where they belong.

Trainers name the era of what they know, masters their epoch: whoever is behind is refused.
"""

from typing import Annotated

import msgspec

from ..model import Model

Count = Annotated[int, msgspec.Meta(ge=0)]
Chunk = Annotated[int, msgspec.Meta(ge=0, lt=1 << 20)]


class Init(msgspec.Struct, tag="init"):
    """Start values of this shard's part of every dense tensor, in order. Does nothing if the shard has values."""

    era: int
    model: Model


class Pull(msgspec.Struct, tag="pull"):
    """Answered with this shard's part of every dense tensor, in order."""

    era: int


class PullRows(msgspec.Struct, tag="pull_rows"):
    """Followed by int64 row numbers; answered with their rows."""

    era: int
    table: str


class Push(msgspec.Struct, tag="push"):
    """Gradients of one step of one task: the dense tensors named, in the model's order, then per table row numbers
    (all different) and their gradients. `rate` replaces the model's learning rate."""

    era: int
    trainer: int
    pass_index: Count
    chunk: Chunk
    step: Count
    dense: list[str] = []
    rows: list[tuple[str, Count]] = []
    rate: float | None = None


class Pushed(msgspec.Struct):
    applied: bool  # False: it had been applied before


class Join(msgspec.Struct, tag="join"):
    """In lockstep: from now on a step waits for this trainer, until it leaves or this connection ends."""

    trainer: int


class Leave(msgspec.Struct, tag="leave"):
    pass


class Status(msgspec.Struct, tag="status"):
    pass


class State(msgspec.Struct):
    """`era` 0: this process holds nothing. `usable`: holds values and takes pushes. `draining`: was asked to go."""

    era: int
    shard: int
    shards: int
    initialised: bool
    frozen: bool
    draining: bool
    digest: str = ""
    pushes: int = 0
    rows: int = 0


class Restore(msgspec.Struct, tag="restore"):
    """Become shard `shard` of `shards` as of checkpoint `number`, which `wrote` shards wrote; 0 means empty."""

    epoch: int
    era: int
    shard: int
    shards: int
    number: int
    wrote: int


class Save(msgspec.Struct, tag="save"):
    """Write checkpoint `number`; of older ones only `keep` are still needed. `freeze`: take no push from now on."""

    epoch: int
    era: int
    number: int
    keep: list[int]
    freeze: bool = False


class Saved(msgspec.Struct):
    bytes_written: int


class Release(msgspec.Struct, tag="release"):
    """This process is in no layout any more: it may exit if it was asked to."""

    epoch: int


Message = Init | Pull | PullRows | Push | Join | Leave | Status | Restore | Save | Release
