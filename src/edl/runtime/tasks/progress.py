"""The durable state of the task queue, in few bytes: the chunks done in the present pass, and at the last checkpoints.

Leases are not part of it: their holders report them to the next master.
"""

import zlib
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import field

MAX_CHUNKS = 500_000


class DoneSet:
    """A set of chunk numbers below a bound. Tasks are leased in order: one run with few holes compresses well."""

    def __init__(self, chunks: int, packed: bytes = b"") -> None:
        self._bits = bytearray(zlib.decompress(packed)) if packed else bytearray()
        self._bits.extend(
            bytes((chunks + 7) // 8 - len(self._bits))
        )  # may be packed before the number of chunks was known
        self.chunks = chunks
        self.count = int.from_bytes(self._bits).bit_count()

    def __contains__(self, chunk: int) -> bool:
        return bool(self._bits[chunk >> 3] & (1 << (chunk & 7)))

    def __iter__(self) -> Iterator[int]:
        return (chunk for chunk in range(self.chunks) if chunk in self)

    def add(self, chunk: int) -> None:
        if chunk not in self:
            self._bits[chunk >> 3] |= 1 << (chunk & 7)
            self.count += 1

    def update(self, chunks: Iterable[int]) -> None:
        for chunk in chunks:
            self.add(chunk)

    @property
    def full(self) -> bool:
        return self.count == self.chunks

    def pack(self) -> bytes:
        return zlib.compress(bytes(self._bits))


class QueueSnapshot(msgspec.Struct, frozen=True, array_like=True):
    """The queue as it was when checkpoint `number` began; `shards` is how many parameter servers wrote it."""

    number: int
    pass_index: int
    done: bytes
    failures: dict[int, int]
    shards: int = 0


class Progress(msgspec.Struct):
    """`chunks` 0: no trainer has declared them yet.

    `era` grows whenever parameters are restored; what was done in an older era and is in no checkpoint is undone.
    `next_checkpoint` is the number of the next checkpoint: a task done now is in that one and in every later one.
    `checkpoints` are the complete ones, newest last. `rollbacks` are (era begun, checkpoint restored), newest last.
    `recent` are (pass, chunk, lease, checkpoint) of the newest completions, for trainers that got no answer and retry.
    """

    chunks: int = 0
    passes: int = 0
    parameters: bool = False
    pass_index: int = 0
    done: bytes = b""
    failures: dict[int, int] = {}
    era: int = 0
    next_checkpoint: int = field(default=1, name="cut")
    checkpoints: list[QueueSnapshot] = []
    rollbacks: list[tuple[int, int]] = []
    recent: list[tuple[int, int, int, int]] = []
    failed: str = ""


def encode(progress: Progress) -> bytes:
    return msgspec.msgpack.encode(progress)


def decode(data: bytes) -> Progress:
    return msgspec.msgpack.decode(data, type=Progress)


def encode_snapshot(snapshot: QueueSnapshot) -> bytes:
    return msgspec.msgpack.encode(snapshot)


def decode_snapshot(data: bytes) -> QueueSnapshot | None:
    """None: it is another version's, or was altered; its checkpoint cannot be used."""
    try:
        return msgspec.msgpack.decode(data, type=QueueSnapshot)
    except msgspec.DecodeError:
        return None
