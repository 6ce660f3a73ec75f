"""Moves the state of the training from a member that has it to one that has not, tensor by tensor.

The structure goes first, as torch pickles it, with each tensor replaced by its place; then the tensors, straight from
the memory of the sender. Nothing that was received counts before all of it is there.
"""

import io
from dataclasses import dataclass
from typing import Any

import torch

from edl.torch.group import Group


@dataclass(frozen=True)
class Hole:
    """The place of a tensor that follows by itself."""

    index: int
    dtype: torch.dtype
    shape: tuple[int, ...]


def send(group: Group, state: Any, rank: int) -> int:
    """How many bytes went."""
    tensors: list[torch.Tensor] = []
    buffer = io.BytesIO()
    torch.save(_hollow(state, tensors), buffer)
    skeleton = torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)
    group.send(torch.tensor([skeleton.numel()]), rank)
    group.send(skeleton, rank)
    for tensor in tensors:
        group.send(_bytes(tensor), rank)
    return int(skeleton.numel()) + sum(int(tensor.nbytes) for tensor in tensors)


def receive(group: Group, rank: int) -> tuple[Any, int]:
    """The state, and how many bytes came."""
    length = torch.zeros(1, dtype=torch.int64)
    group.receive(length, rank)
    skeleton = bytearray(int(length))
    group.receive(torch.frombuffer(skeleton, dtype=torch.uint8), rank)
    # Peers run the same script in the same job: what they pickle is as trustworthy as the script.
    hollow = torch.load(io.BytesIO(skeleton), weights_only=False)
    tensors: list[torch.Tensor] = []
    for hole in _holes(hollow):
        tensor = torch.empty(hole.shape, dtype=hole.dtype)
        group.receive(_bytes(tensor), rank)
        tensors.append(tensor)
    return _filled(hollow, tensors), len(skeleton) + sum(tensor.nbytes for tensor in tensors)


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Its memory, or a copy's if it is elsewhere or not in one piece."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8) if flat.numel() else torch.empty(0, dtype=torch.uint8)


def _hollow(value: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return Hole(len(tensors) - 1, value.dtype, tuple(value.shape))
    if isinstance(value, dict):
        return {key: _hollow(item, tensors) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_hollow(item, tensors) for item in value)
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
