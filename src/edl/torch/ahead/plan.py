"""Who sends state to whom: in the pause, and ahead of it. Pure.

Both follow one rule, so that who was sent to ahead is as a rule sent the rest by the same worker.
"""

from collections.abc import Sequence


def pairing(sources: Sequence[int], others: Sequence[int], shards: int) -> dict[int, int]:
    """By rank of who receives, the rank of who sends: one that has the same part of the model. In turns, pod by pod."""
    found = {}
    for at, other in enumerate(others):
        able = [rank for rank in sources if rank % shards == other % shards]
        found[other] = able[at // shards % len(able)]
    return found


def pairing_ahead(trained: Sequence[int], shards: int) -> dict[int, int]:
    """`trained`: by rank the round that each has trained in; 0: none; negative: a member of it is gone. Then those who
    are left stand still, and nobody is to wait for anything else."""
    farthest = max(map(abs, trained), default=0)
    sources = [rank for rank, number in enumerate(trained) if abs(number) == farthest]
    if farthest == 0 or any(trained[rank] < 0 for rank in sources):
        return {}
    return pairing(sources, [rank for rank in range(len(trained)) if rank not in sources], max(shards, 1))
