"""Checkpoint files, one per shard and checkpoint: written under a temporary name, synced, renamed, with a digest.

A file under its final name is complete; the digest detects later damage. Only the master knows whether a checkpoint is
complete on all shards.
"""

import hashlib
import os
import shutil
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

_MAGIC = b"EDLCKPT1"
_LENGTH = struct.Struct("!Q")
_DIGEST = 32
_QUEUE = "queue"

Array = NDArray[Any]
Bytes = NDArray[np.uint8]
Contents = tuple[bytes, dict[str, Array]]


class DamagedCheckpointError(Exception):
    """A shard's file is missing, truncated or altered."""


class _Entry(msgspec.Struct, frozen=True, array_like=True):
    name: str
    dtype: str
    shape: tuple[int, ...]


class _Header(msgspec.Struct, frozen=True):
    about: msgspec.Raw
    arrays: tuple[_Entry, ...]


class ShardFile(msgspec.Struct, frozen=True):
    """Names the file of one shard of a checkpoint that `shards` shards wrote, in whatever directory it is."""

    number: int
    shard: int
    shards: int

    def __str__(self) -> str:
        return f"checkpoint {self.number} of shard {self.shard}"

    def path(self, directory: Path) -> Path:
        return directory / _folder(self.number) / f"shard-{self.shard}-of-{self.shards}"

    def read(self, directory: Path) -> Bytes:
        return np.fromfile(self.path(directory), np.uint8)

    def stored_digest(self, directory: Path) -> bytes:
        with self.path(directory).open("rb") as file:
            file.seek(-_DIGEST, os.SEEK_END)
            return file.read()


def save(directory: Path, number: int, shard: int, shards: int, about: msgspec.Struct, arrays: dict[str, Array]) -> int:
    """Writes a durable file; returns its size."""
    place = ShardFile(number, shard, shards).path(directory)
    place.parent.mkdir(parents=True, exist_ok=True)
    entries = tuple(_Entry(name, array.dtype.str, array.shape) for name, array in arrays.items())
    header = msgspec.msgpack.encode({"about": about, "arrays": entries})
    head = _MAGIC + _LENGTH.pack(len(header)) + header
    draft = place.with_suffix(f".{os.getpid()}.draft")
    try:
        size = _write(draft, [head, *(np.ascontiguousarray(array).data for array in arrays.values())])
        draft.rename(place)
    finally:
        draft.unlink(missing_ok=True)
    _sync_folder(place.parent)
    _sync_folder(directory)
    return size


def load(directory: Path, number: int, shard: int, shards: int) -> Contents:
    """The encoded description, for the caller to decode, and the arrays that were saved."""
    file = ShardFile(number, shard, shards)
    try:
        data = file.read(directory)
    except OSError as error:
        raise DamagedCheckpointError(f"{file}: {error}") from error
    return decode(data, f"{file}: {file.path(directory)}")


def decode(data: Bytes, name: str) -> Contents:
    """The contents of a file. DamagedCheckpointError, with its name: it is not whole."""
    view = data.data
    body, digest = view[:-_DIGEST], digest_of(data)
    if not bytes(view[: len(_MAGIC)]) == _MAGIC or hashlib.blake2b(body, digest_size=_DIGEST).digest() != digest:
        raise DamagedCheckpointError(f"{name} was cut short or altered")
    start = len(_MAGIC) + _LENGTH.size
    (length,) = _LENGTH.unpack(view[len(_MAGIC) : start])
    header = msgspec.msgpack.decode(view[start : start + length], type=_Header)
    return bytes(header.about), _arrays(body[start + length :], header.arrays)


def digest_of(data: Bytes) -> bytes:
    return bytes(data[-_DIGEST:].data)


def save_queue(directory: Path, number: int, shard: int, queue: bytes) -> None:
    """The master's tasks as of this checkpoint, beside the files. Every shard writes the same, so that on disks of
    their own each has it."""
    place = directory / _folder(number) / _QUEUE
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_suffix(f".{shard}.draft")
    try:
        _write(draft, [queue])
        draft.rename(place)
    finally:
        draft.unlink(missing_ok=True)


def newest(directory: Path) -> tuple[int, bytes]:
    """The number of the newest checkpoint whose files are all here, and its queue; 0: there is none."""
    for folder in sorted(directory.glob("[0-9]" * 10), reverse=True):
        queue = _queue(folder / _QUEUE)
        files = {path.name for path in folder.glob("shard-*-of-*")}
        counts = {int(name.rpartition("-")[2]) for name in files if name.rpartition("-")[2].isdecimal()}
        if queue and any(files >= {f"shard-{shard}-of-{count}" for shard in range(count)} for count in counts):
            return int(folder.name), queue
    return 0, b""


def _queue(place: Path) -> bytes:
    """Empty: it is not here, or not whole."""
    try:
        data = place.read_bytes()
    except OSError:
        return b""
    body, digest = data[:-_DIGEST], data[-_DIGEST:]
    return body if hashlib.blake2b(body, digest_size=_DIGEST).digest() == digest else b""


def adopt(draft: Path, file: ShardFile, directory: Path) -> None:
    """Gives a copied file its name, once it is durable. DamagedCheckpointError: it did not arrive whole."""
    decode(np.fromfile(draft, np.uint8), f"the copy of {file}")
    with draft.open("rb") as written:
        os.fsync(written.fileno())
    draft.rename(file.path(directory))
    _sync_folder(draft.parent)
    _sync_folder(directory)


def prune(directory: Path, keep: Iterable[int], below: int) -> None:
    """Removes checkpoints older than `below` except those to keep. Other shards may do the same at the same time."""
    kept = {_folder(number) for number in keep}
    for folder in directory.glob("[0-9]" * 10):
        if folder.name not in kept and int(folder.name) < below:
            shutil.rmtree(folder, ignore_errors=True)


def _arrays(body: memoryview, entries: tuple[_Entry, ...]) -> dict[str, Array]:
    arrays, at = {}, 0
    for entry in entries:
        dtype = np.dtype(entry.dtype)
        size = int(np.prod(entry.shape, dtype=np.int64)) * dtype.itemsize
        arrays[entry.name] = np.frombuffer(body[at : at + size], dtype).reshape(entry.shape)
        at += size
    return arrays


def _write(place: Path, parts: list[bytes | memoryview]) -> int:
    digest, size = hashlib.blake2b(digest_size=_DIGEST), 0
    with place.open("wb") as file:
        for part in parts:
            if len(part):
                digest.update(part)
                size += file.write(part)
        size += file.write(digest.digest())
        file.flush()
        os.fsync(file.fileno())
    return size


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _folder(number: int) -> str:
    return f"{number:010d}"
