"""Passes state ahead, from a worker that trains on to newcomers that wait, in the group of their next round.

Nobody else uses that group yet. Only what did not change in a step is sent: weights that are frozen, buffers and
tables that nobody touches. What each step changes would be sent in vain, for it is another one when the pause begins.

Chunks have a header: size of the tensor, offset and length of the chunk. A length of 0 ends it, at any time.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import torch

from edl.torch.ahead.copies import Copy, Received, Sent
from edl.torch.ahead.fingerprint import BLOCK, Fingerprint
from edl.torch.ahead.plan import pairing_ahead
from edl.torch.ahead.views import View, Views, version_of
from edl.torch.rounds import transfer
from edl.torch.rounds.group import Group, SupersededError

CHUNK = 8 * BLOCK
HEADER = 3


@dataclass(frozen=True)
class Haste:
    """`superseded`: there is a newer round. `hurried`: this worker stands still, or leaves; no more is sent."""

    superseded: Callable[[], bool]
    hurried: Callable[[], bool]

    def __call__(self) -> bool:
        if self.superseded():
            raise SupersededError
        return self.hurried()


def pass_ahead(group: Group, views: Views, haste: Haste) -> Sent | Received | None:
    """This worker's part, by the rule that all members follow; None if it has none."""
    pairs, own = pairing_ahead(group.trained, group.round.shards), group.round.rank
    if own in pairs:
        return receive(group, pairs[own])
    targets = [other for other, source in pairs.items() if source == own]
    return send(group, targets, views, haste) if targets else None


def send(group: Group, targets: Collection[int], views: Views, haste: Haste) -> Sent:
    sent, staging = Sent(targets), torch.empty(CHUNK, dtype=torch.uint8)
    for path, seen in _steady(views, haste).items():
        if version_of(seen.tensor) != seen.version or not seen.tensor.numel():
            continue
        made = Fingerprint()
        for size, offset, part in _chunks(seen.tensor):
            if haste():
                _end(group, targets)
                return sent
            # A copy first: what is sent has the fingerprint that is kept, whatever a step does meanwhile.
            staged = staging[: part.numel()].copy_(part)
            made.add(staged)
            for target in targets:
                group.send(torch.tensor([size, offset, part.numel()]), target)
                group.send(staged, target)
        sent.copies[path] = Copy(seen, made.digest())
    _end(group, targets)
    return sent


def receive(group: Group, source: int) -> Received:
    received, header = Received(source), torch.zeros(HEADER, dtype=torch.int64)
    whole = torch.empty(0, dtype=torch.uint8)
    while True:
        group.receive(header, source)
        size, offset, length = header.tolist()
        if not length:
            return received
        if not offset:
            whole = torch.empty(size, dtype=torch.uint8)
        group.receive(whole[offset : offset + length], source)
        if offset + length == size:
            received.copies.append(whole)


def _steady(views: Views, haste: Haste) -> View:
    """What is the same after two steps."""
    first = views.next(haste)
    second = views.next(haste) if first is not None else None
    if first is None or second is None:
        return {}
    return {path: seen for path, seen in second.items() if path in first and seen.same(first[path])}


def _chunks(tensor: torch.Tensor) -> Iterator[tuple[int, int, torch.Tensor]]:
    whole = transfer.flat(tensor)
    for offset in range(0, whole.numel(), CHUNK):
        yield whole.numel(), offset, whole[offset : offset + CHUNK]


def _end(group: Group, targets: Collection[int]) -> None:
    for target in targets:
        group.send(torch.zeros(HEADER, dtype=torch.int64), target)
