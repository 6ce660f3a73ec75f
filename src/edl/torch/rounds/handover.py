"""Has all members of a new round go on from one state: that of whoever has come farthest.

A worker that is new, or had not committed the last step, receives it from one that has. Nothing counts before all have
it. Of a model that the workers of a pod share, each receives its part from one who has the same. Nothing counts for one
worker of such a pod that does not count for all. What was passed ahead and is still true is not sent again.
"""

import logging
from typing import Any

from edl.torch.ahead.copies import Received, Sent
from edl.torch.ahead.plan import pairing
from edl.torch.rounds import transfer
from edl.torch.rounds.group import Group
from edl.torch.sharded.siblings import Siblings
from edl.torch.state import TrainingState

log = logging.getLogger(__name__)


def hand_over(group: Group, state: TrainingState, generation: int, siblings: Siblings) -> int:
    """How many bytes this worker received. `generation` is the round that it trained in, 0: none."""
    number = group.round.number
    with siblings.all_or_none(f"{number}/entered"):
        with siblings.all_or_none(f"{number}/received"):
            everyone = group.all_gather([generation, state.cursor.step, state.cursor.epoch])
            sources = _sources(everyone, max(group.round.shards, 1))
            others = [rank for rank in range(group.round.size) if rank not in sources]
            received, count = _exchange(group, state, sources, others)
        if received is not None:
            state.load(received)
        if others:
            group.all_gather([1])  # all have it, or nobody goes on in this round
    return count


def _sources(everyone: list[list[int]], shards: int) -> list[int]:
    """Ranks that have come farthest: whole pods, where their workers share a model."""
    farthest = max(everyone)
    sources = [rank for rank, place in enumerate(everyone) if place == farthest]
    if farthest[0] == 0:
        return sources[:shards]  # nobody has trained yet: all begin with the weights of the first
    return sources


def _exchange(group: Group, state: TrainingState, sources: list[int], others: list[int]) -> tuple[Any, int]:
    """What this worker received, and how many bytes; None if it needs nothing."""
    pairs, own, ahead = pairing(sources, others, max(group.round.shards, 1)), group.round.rank, group.ahead
    group.ahead = None  # it is for this one time
    if own in pairs:
        return _receive(group, pairs[own], ahead)
    if targets := [other for other, source in pairs.items() if source == own]:
        _send(group, state.capture(), targets, ahead)
    return None, 0


def _send(group: Group, captured: Any, targets: list[int], ahead: Any) -> None:
    known = ahead.true(captured) if isinstance(ahead, Sent) and set(targets) & set(ahead.targets) else {}
    for target in targets:
        transfer.send(group, captured, target, known if known and target in ahead.targets else transfer.NONE_AHEAD)


def _receive(group: Group, source: int, ahead: Any) -> tuple[Any, int]:
    """From one who may not be the one that sent ahead, and then does not refer to it."""
    copies = ahead.copies if isinstance(ahead, Received) and ahead.source == source else []
    received, count = transfer.receive(group, source, copies)
    log.info("%d bytes of state came in the pause, %d ahead", count, sum(copy.numel() for copy in copies))
    return received, count
