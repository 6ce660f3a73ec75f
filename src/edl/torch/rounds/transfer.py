"""Moves the state of the training from a member that has it to one that has not, tensor by tensor.

The structure goes first, as torch pickles it, with each tensor replaced by its place; then the tensors, straight from
the memory of the sender. Nothing that was received counts before all of it is there. A place may say that its tensor
came ahead (`edl.torch.ahead`): it is not sent then.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

from edl.torch.rounds.group import Group

Path = tuple[Any, ...]
"""Keys and indices that lead to a tensor."""
NONE_AHEAD: Mapping[Path, int] = MappingProxyType({})


@dataclass(frozen=True)
class Hole:
    """The place of a tensor that follows by itself, or came before as the copy of this number (-1: it did not)."""

    index: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    ahead: int = -1


def send(group: Group, state: Any, rank: int, ahead: Mapping[Path, int] = NONE_AHEAD) -> int:
    """How many bytes went. `ahead`: which copy the other end has of a place."""
    places = list(tensors(state))
    holes = [Hole(at, one.dtype, tuple(one.shape), ahead.get(path, -1)) for at, (path, one) in enumerate(places)]
    buffer = io.BytesIO()
    torch.save(_hollow(state, iter(holes)), buffer)
    skeleton = torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)
    group.send(torch.tensor([skeleton.numel()]), rank)
    group.send(skeleton, rank)
    following = [one for (_, one), hole in zip(places, holes, strict=True) if hole.ahead < 0]
    for tensor in following:
        group.send(_bytes(tensor), rank)
    return int(skeleton.numel()) + sum(int(tensor.nbytes) for tensor in following)


def receive(group: Group, rank: int, ahead: Sequence[torch.Tensor] = ()) -> tuple[Any, int]:
    """The state, and how many bytes came now. `ahead`: copies that came before, as bytes."""
    length = torch.zeros(1, dtype=torch.int64)
    group.receive(length, rank)
    skeleton = bytearray(int(length))
    group.receive(torch.frombuffer(skeleton, dtype=torch.uint8), rank)
    # Peers run the same script in the same job: what they pickle is as trustworthy as the script.
    hollow = torch.load(io.BytesIO(skeleton), weights_only=False)
    found, count = [], len(skeleton)
    for hole in _holes(hollow):
        if hole.ahead >= 0:
            found.append(_shaped(ahead[hole.ahead], hole))
            continue
        tensor = torch.empty(hole.shape, dtype=hole.dtype)
        group.receive(_bytes(tensor), rank)
        found.append(tensor)
        count += tensor.nbytes
    return _filled(hollow, found), count


def tensors(value: Any, path: Path = ()) -> Iterator[tuple[Path, torch.Tensor]]:
    """In the order in which they are sent."""
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from tensors(item, (*path, key))
    elif type(value) in (list, tuple):
        for key, item in enumerate(value):
            yield from tensors(item, (*path, key))


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """Its memory as bytes, or a copy's if it is not in one piece."""
    whole = tensor.detach().contiguous().reshape(-1)
    return whole.view(torch.uint8) if whole.numel() else torch.empty(0, dtype=torch.uint8)


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The same in this host's memory."""
    return flat(tensor.detach().cpu())


def _shaped(data: torch.Tensor, hole: Hole) -> torch.Tensor:
    """A tensor of its own that has this memory, no view: optimizers keep what they are given."""
    return torch.empty(0, dtype=hole.dtype).set_(data.untyped_storage(), 0, hole.shape)


def _hollow(value: Any, holes: Iterator[Hole]) -> Any:
    if isinstance(value, torch.Tensor):
        return next(holes)
    if isinstance(value, dict):
        return {key: _hollow(item, holes) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_hollow(item, holes) for item in value)
    return value


def _holes(value: Any) -> list[Hole]:
    """In the order of their tensors."""
    if isinstance(value, Hole):
        return [value]
    items = value.values() if isinstance(value, dict) else value if type(value) in (list, tuple) else ()
    return [hole for item in items for hole in _holes(item)]


def _filled(value: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(value, Hole):
        return tensors[value.index]
    if isinstance(value, dict):
        return {key: _filled(item, tensors) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_filled(item, tensors) for item in value)
    return value
