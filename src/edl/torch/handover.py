"""Has all members of a new round go on from one state: that of whoever has come farthest.

A worker that is new, or had not committed the last step, receives it from one that has. Nothing counts before all have
it. Of a model that the workers of a pod share, each receives its part from one who has the same. Nothing counts for one
worker of such a pod that does not count for all.
"""

from typing import Any

from edl.torch import transfer
from edl.torch.group import Group
from edl.torch.sharded.siblings import Siblings
from edl.torch.state import TrainingState


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
    shards = max(group.round.shards, 1)
    received, count = None, 0
    for at, other in enumerate(others):
        able = [rank for rank in sources if rank % shards == other % shards]
        source = able[at // shards % len(able)]
        if group.round.rank == source:
            transfer.send(group, state.capture(), other)
        elif group.round.rank == other:
            received, count = transfer.receive(group, source)
    return received, count
