"""One file per shard and checkpoint: written beside its place, synced, then renamed, with a digest at its end.

A file that has its name is whole; should the disk have harmed it, the digest says so. Whether a checkpoint is complete,
on all shards, is for the master to know: it alone hears all of them.
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

Array = NDArray[Any]


class DamagedError(Exception):
    """A shard's file is missing, cut short or altered."""


class _Entry(msgspec.Struct, frozen=True, array_like=True):
    name: str
    dtype: str
    shape: tuple[int, ...]


class _Header(msgspec.Struct, frozen=True):
    about: msgspec.Raw
    arrays: tuple[_Entry, ...]


def save(directory: Path, number: int, shard: int, shards: int, about: msgspec.Struct, arrays: dict[str, Array]) -> int:
    """Returns the bytes written; the file is durable then."""
    place = _path(directory, number, shard, shards)
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


def load(directory: Path, number: int, shard: int, shards: int) -> tuple[bytes, dict[str, Array]]:
    """What `save` was given: the encoded description, to be decoded by the caller, and the arrays."""
    place = _path(directory, number, shard, shards)
    try:
        data = np.fromfile(place, np.uint8)
    except OSError as error:
        raise DamagedError(f"checkpoint {number} of shard {shard}: {error}") from error
    view = data.data
    body, digest = view[:-_DIGEST], bytes(view[-_DIGEST:])
    if not bytes(view[: len(_MAGIC)]) == _MAGIC or hashlib.blake2b(body, digest_size=_DIGEST).digest() != digest:
        raise DamagedError(f"checkpoint {number} of shard {shard}: {place} was cut short or altered")
    start = len(_MAGIC) + _LENGTH.size
    (length,) = _LENGTH.unpack(view[len(_MAGIC) : start])
    header = msgspec.msgpack.decode(view[start : start + length], type=_Header)
    return bytes(header.about), _arrays(body[start + length :], header.arrays)


def prune(directory: Path, keep: Iterable[int], below: int) -> None:
    """Removes older checkpoints than `below` but those to keep. Another shard may be doing the same."""
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


def _path(directory: Path, number: int, shard: int, shards: int) -> Path:
    return directory / _folder(number) / f"shard-{shard}-of-{shards}"


def _folder(number: int) -> str:
    return f"{number:010d}"
