"""The checkpoints that this worker has in memory: filled, handed to the agent and to the writer, and read again.

One is filled while those before stay whole, and one more while the disk is slow; there are never more of them.
"""

import contextlib
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from edl.torch.checkpoints import image
from edl.torch.checkpoints.buffers import Buffer, opened
from edl.torch.checkpoints.choice import Source, State
from edl.torch.checkpoints.folder import CheckpointFolder, ShardFile
from edl.torch.checkpoints.image import Packed, TornError
from edl.torch.checkpoints.memory_link import Key, MemoryLink
from edl.torch.checkpoints.neighbour import Neighbour
from edl.torch.checkpoints.shards import Shard
from edl.torch.checkpoints.writer import Job, Writer

log = logging.getLogger(__name__)

HELD, HELD_SHARDS = 2, 3  # a neighbour's copy is one save behind, and ranks are one save apart
COPIED_BY = 60.0


@dataclass(frozen=True)
class Slot:
    """Which shard this worker has; of none, it has all."""

    index: int = 0
    count: int = 0

    @property
    def name(self) -> str:
        return f"{self.index}/{self.count}" if self.count else ""

    @property
    def held(self) -> int:
        return HELD_SHARDS if self.count else HELD

    def file(self, step: int, branch: int) -> int | ShardFile:
        return ShardFile(step, self.index, self.count, branch) if self.count else step


@dataclass(eq=False)
class _Place:
    buffer: Buffer
    key: Key | None = None


class Shelf:
    """Without a link it serves the disk alone."""

    def __init__(self, link: MemoryLink | None, writer: Writer | None, folder: CheckpointFolder) -> None:
        self._link, self.writer, self._folder = link, writer, folder
        self._places: list[_Place] = []
        self._recent: list[_Place] = []
        self.slot = Slot()
        self.neighbour: Neighbour | None = None
        self._fillings = self._puts = 0
        self._lock = threading.Lock()

    def put(self, step: int, branch: int, state: State, *, write: bool = True) -> None:
        """Returns when it is copied and, if there is an agent, in its hands."""
        packed = image.pack(state)
        place = self._free(packed)
        self._fillings += 1
        image.fill(place.buffer, packed, self._fillings)
        place.key = Key(step, branch, self.slot.name)
        if self._link is not None and place.buffer.file is not None:
            self._link.put(place.key, place.buffer.file, keep=self.slot.held)
        self._recent = [*self._recent, place][1 - self.slot.held :]
        self._puts += 1
        if self._link is not None and self.slot.count and self._puts == self.slot.held:
            self._link.forget(branch)  # shards of another number of ranks would stay: their slots are not filled again
        release = partial(self._pin, place, -1)
        if self.neighbour is not None:
            self._pin(place, 1)
            self.neighbour.offer(place.key, place.buffer, packed.size, release, COPIED_BY)
        if self.writer is not None and write:
            self._pin(place, 1)
            which = self.slot.file(step, branch)
            self.writer.offer(Job(step, partial(self._write, place, which), release))

    def _free(self, packed: Packed) -> _Place:
        """A place that holds neither one of the newest nor one that is being written; nobody else has it any more."""
        with self._lock:
            free = [one for one in self._places if one not in self._recent and not one.buffer.pins]
        for place in free:
            if place.key is not None and self._link is not None:
                self._link.withdraw(place.key)
            place.key = None
        for place in free:
            if place.buffer.size >= packed.size:
                return place
            self._places.remove(place)
            place.buffer.close()
        made = _Place(Buffer(packed.size + packed.size // 16))  # optimizers and schedules grow a little
        self._places.append(made)
        return made

    def _pin(self, place: _Place, change: int) -> None:
        with self._lock:
            place.buffer.pins += change

    def _write(self, place: _Place, which: int | ShardFile) -> None:
        self._folder.write(which, image.read(place.buffer.memory, copy=False))

    # ---- reading

    def source(self) -> Source:
        """What the agent of this pod holds."""
        keys = {key.step: key for key in sorted(self._held(), key=lambda key: key.branch)}
        return Source("memory", sorted(keys), lambda step: self._read(keys[step]))

    def shards(self) -> list[Shard]:
        """What the agent of this pod holds of models that are spread over ranks, its neighbour's copies as well."""
        held = [] if self._link is None else [key for key in self._link.held() if key.slot]
        found = []
        for key in held:
            index, count = map(int, key.slot.split("/"))
            found.append(Shard(key.step, key.branch, index, count, "memory", partial(self._read, key)))
        return found

    def _held(self) -> list[Key]:
        return [] if self._link is None else [key for key in self._link.held() if not key.slot]

    def _read(self, key: Key) -> State | None:
        with contextlib.suppress(TornError), self._opened(key) as memory:
            state: State = image.read(memory)
            return state
        return None

    @contextlib.contextmanager
    def _opened(self, key: Key) -> Iterator[Any]:
        file = None if self._link is None else self._link.get(key)
        if file is None:
            raise TornError("it is gone")
        with opened(file) as memory:
            yield memory
