"""Checkpoints of models that no rank has as a whole (FSDP): every rank saves its shard, any number of ranks load it.

A tensor that is spread over ranks becomes a piece. To load, each rank receives those parts of pieces that its own part
overlaps, whatever the number of ranks that saved was.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from edl.torch.checkpoints.peers import Peers
from edl.torch.rounds import transfer
from edl.torch.sharded.pieces import LOCAL, PIECE, Layout, Region, mapped, pieces, slices

log = logging.getLogger(__name__)

DTYPE = "dtype"
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


def _hollow(value: Any) -> Any:
    if isinstance(value, dict) and PIECE in value:
        return {PIECE: value[PIECE], DTYPE: value[LOCAL].dtype}
    return mapped(value, _hollow)


def _filled(value: Any, whole: Iterator[Any]) -> Any:
    if isinstance(value, dict) and PIECE in value:
        return next(whole)
    return mapped(value, lambda item: _filled(item, whole))


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
        part = piece[LOCAL][slices(common, piece[PIECE][1])]
        if rank == self._peers.rank:
            self._parts[at][slices(common, self._wanted[at][0])] = part
        else:
            self._peers.send(_bytes(part.contiguous()), rank)

    def _take(self, source: int, at: int, common: Region) -> None:
        part = torch.empty(common[1], dtype=self._parts[at].dtype)
        self._peers.receive(_bytes(part), source)
        self._parts[at][slices(common, self._wanted[at][0])] = part


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


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1).view(torch.uint8)
