"""Messages of trainers, the master and other servers to parameter servers, and their answers. Arrays follow as bytes.

Trainers send the era that they know, masters their epoch; a caller that is behind is refused.
"""

from typing import Annotated

import msgspec

from edl.runtime.parameters.model import Model

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


class ServerState(msgspec.Struct):
    """`era` 0: the process holds nothing. `draining`: it is being terminated. `fetched`: a part of its values came from
    another server and is in no file of its own yet."""

    era: int
    shard: int
    shards: int
    initialised: bool
    frozen: bool
    draining: bool
    digest: str = ""
    pushes: int = 0
    rows: int = 0
    fetched: bool = False


class Restore(msgspec.Struct, tag="restore"):
    """Become shard `shard` of `shards` as of checkpoint `number`, which `wrote` shards wrote; 0 means empty. Files that
    are not here are on the servers at `peers`."""

    epoch: int
    era: int
    shard: int
    shards: int
    number: int
    wrote: int
    peers: list[str] = []


class Save(msgspec.Struct, tag="save"):
    """Write checkpoint `number`; of older ones only `keep` are still needed. `freeze`: refuse pushes from now on.
    `copy_to`: the server that gets a copy before this is answered. `queue`: the tasks that are in it, to keep beside
    the files."""

    epoch: int
    era: int
    number: int
    keep: list[int]
    freeze: bool = False
    copy_to: str = ""
    queue: bytes = b""


class Saved(msgspec.Struct):
    bytes_written: int


class Find(msgspec.Struct, tag="find"):
    """Answered with the newest checkpoint here that is whole: for a master that knows none of those that are."""


class Found(msgspec.Struct):
    number: int = 0  # 0: there is none
    queue: bytes = b""


class Release(msgspec.Struct, tag="release"):
    """The process is no longer in the layout: it may exit if it is being terminated."""

    epoch: int


class Offer(msgspec.Struct, tag="offer"):
    """Another server has written this file and would send a copy."""

    epoch: int
    number: Count
    shard: Count
    shards: Count
    digest: bytes


class Wanted(msgspec.Struct):
    wanted: bool  # False: the file is here, as on a volume that servers share


class CopyPart(msgspec.Struct, tag="copy"):
    """Followed by the bytes of the file from `offset`. `last`: it is complete now."""

    epoch: int
    number: Count
    shard: Count
    shards: Count
    offset: Count
    last: bool


class FetchPart(msgspec.Struct, tag="fetch"):
    """Answered with bytes of this file from `offset`."""

    number: Count
    shard: Count
    shards: Count
    offset: Count


class Part(msgspec.Struct):
    file_size: int  # 0: the file is not here


Message = (
    Init
    | Pull
    | PullRows
    | Push
    | Join
    | Leave
    | Status
    | Restore
    | Save
    | Find
    | Release
    | Offer
    | CopyPart
    | FetchPart
)
