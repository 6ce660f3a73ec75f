"""Checkpoints of models that no rank has as a whole (FSDP): every rank saves its shard, any number of ranks load it.

A tensor that is spread over ranks becomes a piece: its local part, the shape of the whole, and where in it the part
lies. All other values are the same on every rank. To load, each rank receives those parts of pieces that its own part
overlaps, whatever the number of ranks that saved was.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from edl.torch import transfer
from edl.torch.checkpoints.peers import Peers

log = logging.getLogger(__name__)

PIECE, LOCAL, DTYPE = "edl_piece", "local", "dtype"
Region = tuple[list[int], list[int]]  # offset and shape
State = dict[str, Any]


@dataclass(frozen=True)
class Shard:
    """One of `count` that make up a checkpoint. `read` gives None if it cannot be had."""

    step: int
    branch: int
    index: int
    count: int
    where: str
    read: Callable[[], State | None]


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


# ---- pieces


def split(value: Any) -> Any:
    """The same state with a piece for each tensor that is spread."""
    if is_spread(value):
        offset, _ = _region(value.shape, value.device_mesh, value.placements)
        return {PIECE: [list(value.shape), offset], LOCAL: value.to_local()}
    return _mapped(value, split)


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


def _hollow(value: Any) -> Any:
    if isinstance(value, dict) and PIECE in value:
        return {PIECE: value[PIECE], DTYPE: value[LOCAL].dtype}
    return _mapped(value, _hollow)


def _filled(value: Any, whole: Iterator[Any]) -> Any:
    if isinstance(value, dict) and PIECE in value:
        return next(whole)
    return _mapped(value, lambda item: _filled(item, whole))


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return {key: change(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(change(item) for item in value)
    return value


# ---- loading


def load(peers: Peers, shards: list[Shard], layout: Layout) -> tuple[State, str] | None:
    """The newest checkpoint of which all shards are somewhere, in this layout. All ranks call this."""
    damaged: set[tuple[int, int, int]] = set()
    while True:
        everyone = peers.gather([[one.step, one.branch, one.index, one.count, one.where] for one in shards])
        newest = newest_whole(everyone, damaged)
        if newest is None:
            return None
        holders = _holders(everyone, newest)
        mine = {}
        for index, (rank, where) in enumerate(holders):
            if rank == peers.rank:
                wanted = (*newest[:2], index, newest[2], where)
                mine[index] = next(s for s in shards if (s.step, s.branch, s.index, s.count, s.where) == wanted).read()
        if all(peers.gather(all(state is not None for state in mine.values()))):
            whole = {index: state for index, state in mine.items() if state is not None}
            return _assembled(peers, [rank for rank, _ in holders], whole, layout), holders[0][1]
        damaged.add(newest)


def newest_whole(everyone: list[Any], damaged: set[tuple[int, int, int]]) -> tuple[int, int, int] | None:
    """Step, branch and number of shards."""
    there: dict[tuple[int, int, int], set[int]] = {}
    for held in everyone:
        for step, branch, index, count, _ in held:
            there.setdefault((step, branch, count), set()).add(index)
    whole = [key for key, found in there.items() if len(found) == key[2] and key not in damaged]
    return max(whole, default=None)


def _holders(everyone: list[Any], key: tuple[int, int, int]) -> list[tuple[int, str]]:
    """Who gives which shard, and from where; memory is preferred."""
    found: dict[int, tuple[bool, int, str]] = {}
    for rank, held in enumerate(everyone):
        for step, branch, index, count, where in held:
            if (step, branch, count) == key:
                offer = (where == "disk", rank, where)
                found[index] = min(found.get(index, offer), offer)
    return [found[index][1:] for index in range(key[2])]


def _assembled(peers: Peers, holders: list[int], mine: dict[int, State], layout: Layout) -> State:
    frame = _shared(peers, _hollow(mine[0]) if 0 in mine else None, holders[0])
    assembly = _Assembly(peers, layout, list(pieces(frame)), {index: list(pieces(one)) for index, one in mine.items()})
    assembly.exchange(holders)
    state: State = _filled(frame, iter(assembly.whole()))
    peers.all_gather([1])  # all have it, or nobody goes on
    return state


class _Assembly:
    """This rank's part of every tensor that is spread, put together from the shards that ranks hold (`own`: ours)."""

    def __init__(
        self, peers: Peers, layout: Layout, frame: list[dict[str, Any]], own: dict[int, list[dict[str, Any]]]
    ) -> None:
        self._peers, self._layout, self._own = peers, layout, own
        self._shapes = [piece[PIECE][0] for piece in frame]
        self._wanted = [layout.region(shape) for shape in self._shapes]
        self._parts = [
            torch.empty(shape, dtype=piece[DTYPE]) for piece, (_, shape) in zip(frame, self._wanted, strict=True)
        ]

    def whole(self) -> list[Any]:
        return [self._layout.joined(part, shape) for part, shape in zip(self._parts, self._shapes, strict=True)]

    def exchange(self, holders: list[int]) -> None:
        """All ranks go through all parts in the same order, and each does what concerns it."""
        own = {str(index): [_region_of(piece) for piece in found] for index, found in self._own.items()}
        having = {int(index): regions for table in self._peers.gather(own) for index, regions in table.items()}
        wants = self._peers.gather(self._wanted)
        for index, source in enumerate(holders):
            for at, region in enumerate(having[index]):
                for rank, regions in enumerate(wants):
                    common = overlap(region, regions[at])
                    if common is None:
                        continue
                    if self._peers.rank == source:
                        self._give(rank, at, common, self._own[index][at])
                    elif self._peers.rank == rank:
                        self._take(source, at, common)

    def _give(self, rank: int, at: int, common: Region, piece: dict[str, Any]) -> None:
        part = piece[LOCAL][_slices(common, _region_of(piece))]
        if rank == self._peers.rank:
            self._parts[at][_slices(common, self._wanted[at])] = part
        else:
            self._peers.send(_bytes(part.contiguous()), rank)

    def _take(self, source: int, at: int, common: Region) -> None:
        part = torch.empty(common[1], dtype=self._parts[at].dtype)
        self._peers.receive(_bytes(part), source)
        self._parts[at][_slices(common, self._wanted[at])] = part


def _shared(peers: Peers, frame: Any, source: int) -> Any:
    for rank in range(peers.size):
        if rank == source:
            continue
        if peers.rank == source:
            transfer.send(peers, frame, rank)
        elif peers.rank == rank:
            frame, _ = transfer.receive(peers, source)
    return frame


def _region_of(piece: dict[str, Any]) -> Region:
    return list(piece[PIECE][1]), list(piece[LOCAL].shape)


def overlap(one: Region, other: Region) -> Region | None:
    begin = [max(a, b) for a, b in zip(one[0], other[0], strict=True)]
    end = [min(a + n, b + m) for a, n, b, m in zip(*one, *other, strict=True)]
    shape = [last - first for first, last in zip(begin, end, strict=True)]
    return (begin, shape) if all(length > 0 for length in shape) else None


def _slices(common: Region, within: Region) -> tuple[slice, ...]:
    return tuple(
        slice(first - base, first - base + length) for first, length, base in zip(*common, within[0], strict=True)
    )


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1).view(torch.uint8)
