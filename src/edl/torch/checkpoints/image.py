"""A checkpoint in memory: its tensors one beside the other, and the structure around them as it is pickled.

Numbers at both ends of it are the same only if it was filled from the first byte to the last: a writer that was killed
in between leaves what nobody takes for a checkpoint.
"""

import io
import mmap
import pickle
import struct
from dataclasses import dataclass
from typing import Any

import torch

from edl.torch.checkpoints.buffers import Buffer

_HEAD = struct.Struct("<8sQQQ")  # what it is, the number of the filling, where the structure begins, its length
_TAIL = struct.Struct("<Q")
_MAGIC = b"EDLckpt1"
_ALIGNED = 64
UNFINISHED = 0


class TornError(Exception):
    """Memory that does not hold a whole checkpoint."""


@dataclass(frozen=True)
class Packed:
    """A state that is ready to be copied: tensors with their places, and the structure."""

    tensors: list[tuple[int, torch.Tensor]]
    structure: bytes
    at: int
    """Where the structure begins."""

    @property
    def size(self) -> int:
        return self.at + len(self.structure) + _TAIL.size


class _Packer(pickle.Pickler):
    """Tensors become places. One that occurs twice (tied weights) is copied once."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5)
        self.tensors: list[tuple[int, torch.Tensor]] = []
        self.end = _aligned(_HEAD.size)
        self._places: dict[Any, int] = {}

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, torch.Tensor):
            return None
        tensor = obj.detach()
        key = (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()), str(tensor.device))
        if key not in self._places or not tensor.numel():
            self._places[key] = self.end
            self.tensors.append((self.end, tensor))
            self.end = _aligned(self.end + tensor.numel() * tensor.element_size())
        return self._places[key], tensor.dtype, tuple(tensor.shape)


class _Unpacker(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, memory: Any, *, copy: bool) -> None:
        super().__init__(file)
        self._memory, self._copy = memory, copy

    def persistent_load(self, pid: Any) -> Any:
        at, dtype, shape = pid
        empty = torch.empty(shape, dtype=dtype, device="meta")
        if not empty.numel():
            return torch.empty(shape, dtype=dtype)
        flat = torch.frombuffer(self._memory, dtype=torch.uint8, offset=at, count=empty.numel() * empty.element_size())
        tensor = flat.view(dtype).view(shape)
        return tensor.clone() if self._copy else tensor


def pack(state: Any) -> Packed:
    """Copies nothing yet. Raises TypeError for what cannot be pickled."""
    file = io.BytesIO()
    packer = _Packer(file)
    try:
        packer.dump(state)
    except (pickle.PicklingError, AttributeError) as error:
        raise TypeError(f"a checkpoint can hold what pickle can: {error}") from error
    return Packed(packer.tensors, file.getvalue(), packer.end)


def fill(buffer: Buffer, packed: Packed, number: int) -> None:
    """`number` differs from that of the last filling, and is above 0."""
    memory = buffer.memory
    _HEAD.pack_into(memory, 0, _MAGIC, UNFINISHED, packed.at, len(packed.structure))
    _TAIL.pack_into(memory, packed.size - _TAIL.size, UNFINISHED)
    for at, tensor in packed.tensors:
        _copy(memory, at, tensor)
    memory[packed.at : packed.at + len(packed.structure)] = packed.structure
    _TAIL.pack_into(memory, packed.size - _TAIL.size, number)
    _HEAD.pack_into(memory, 0, _MAGIC, number, packed.at, len(packed.structure))


def _copy(memory: mmap.mmap, at: int, tensor: torch.Tensor) -> None:
    """Straight from where it is."""
    if not tensor.numel():
        return
    source = tensor.cpu().contiguous().reshape(-1).view(torch.uint8)
    torch.frombuffer(memory, dtype=torch.uint8, offset=at, count=source.numel()).copy_(source)


def extent(memory: Any) -> int:
    """How many bytes of the memory the checkpoint takes. Raises TornError if there is none."""
    if len(memory) < _HEAD.size:
        raise TornError("it is too short")
    magic, number, at, length = _HEAD.unpack_from(memory, 0)
    end = at + length + _TAIL.size
    if magic != _MAGIC or number == UNFINISHED or end > len(memory):
        raise TornError("it was not finished")
    if _TAIL.unpack_from(memory, end - _TAIL.size)[0] != number:
        raise TornError("its end is of another one")
    return int(end)


def read(memory: Any, *, copy: bool = True) -> Any:
    """The state. Without a copy its tensors are the memory itself."""
    extent(memory)
    _, _, at, length = _HEAD.unpack_from(memory, 0)
    structure = io.BytesIO(memory[at : at + length])
    return _Unpacker(structure, memory, copy=copy).load()


def _aligned(at: int) -> int:
    return -(-at // _ALIGNED) * _ALIGNED
