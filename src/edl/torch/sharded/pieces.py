"""Tensors that no rank has as a whole (`fully_shard`), as what can be kept and sent: pieces.

A piece is the local part of a tensor, the shape of the whole, and where in it the part lies. All other values are the
same on every rank.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

PIECE, LOCAL = "edl_piece", "local"
Region = tuple[list[int], list[int]]  # offset and shape


@dataclass(frozen=True)
class Layout:
    """How the ranks of now share every tensor that is spread."""

    mesh: Any
    placements: Any

    def region(self, shape: Sequence[int]) -> Region:
        return _region(shape, self.mesh, self.placements)

    def joined(self, local: torch.Tensor, shape: Sequence[int]) -> Any:
        from torch.distributed.tensor import DTensor

        stride = torch.empty(tuple(shape), device="meta").stride()
        return DTensor.from_local(
            local, self.mesh, self.placements, run_check=False, shape=torch.Size(shape), stride=stride
        )


def layout_of(objects: dict[str, Any]) -> Layout | None:
    """Of the parameters of models and optimizers; None if no rank lacks any of them."""
    found = {}
    for obj in objects.values():
        for tensor in _parameters(obj):
            if is_spread(tensor):
                found[str((tensor.device_mesh, tensor.placements))] = Layout(tensor.device_mesh, tensor.placements)
    if len(found) > 1:
        raise ValueError(
            f"parameters are spread over ranks in {len(found)} ways ({'; '.join(found)}): a Checkpointer can load one, "
            "torch.distributed.checkpoint any"
        )
    return next(iter(found.values()), None)


def _parameters(obj: Any) -> Iterator[Any]:
    if isinstance(obj, torch.nn.Module):
        yield from obj.parameters()
    elif isinstance(obj, torch.optim.Optimizer):
        for group in obj.param_groups:
            yield from group["params"]


def is_spread(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and hasattr(value, "placements") and hasattr(value, "device_mesh")


def _region(shape: Sequence[int], mesh: Any, placements: Any) -> Region:
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    local, offset = compute_local_shape_and_global_offset(tuple(shape), mesh, placements)
    return list(offset), list(local)


def split(value: Any) -> Any:
    """The same state with a piece for each tensor that is spread."""
    if is_spread(value):
        offset, _ = _region(value.shape, value.device_mesh, value.placements)
        return {PIECE: [list(value.shape), offset], LOCAL: value.to_local()}
    return mapped(value, split)


def gathered(value: Any) -> Any:
    """The same state with pieces that are the whole. All ranks of the mesh call this."""
    if is_spread(value):
        return {PIECE: [list(value.shape), [0] * value.dim()], LOCAL: value.full_tensor()}
    return mapped(value, gathered)


def joined(value: Any, layout: Layout) -> Any:
    """The same state with this rank's part of each piece, which has it all."""
    if isinstance(value, dict) and PIECE in value:
        shape, begin = value[PIECE]
        own = layout.region(shape)
        part = value[LOCAL][slices(own, begin)]
        return layout.joined(part.to(layout.mesh.device_type), shape)
    return mapped(value, lambda item: joined(item, layout))


def slices(region: Region, begin: Sequence[int]) -> tuple[slice, ...]:
    """Of a tensor that begins there."""
    return tuple(slice(first - base, first - base + length) for first, length, base in zip(*region, begin, strict=True))


def is_split(value: Any) -> bool:
    return next(pieces(value), None) is not None


def pieces(value: Any) -> Iterator[dict[str, Any]]:
    """In an order that is the same for all shards."""
    if isinstance(value, dict) and PIECE in value:
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from pieces(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from pieces(item)


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return {key: change(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(change(item) for item in value)
    return value
