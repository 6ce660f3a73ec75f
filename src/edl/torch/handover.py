"""Has all members of a new round go on from one state: that of whoever has come farthest.

A worker that is new, or had not committed the last step, receives it from one that has. Nothing counts before all have
it.
"""

from edl.torch import transfer
from edl.torch.group import Group
from edl.torch.state import TrainingState


def hand_over(group: Group, state: TrainingState, generation: int) -> int:
    """How many bytes this worker received. `generation` is the round that it trained in, 0: none."""
    everyone = group.all_gather([generation, state.cursor.step, state.cursor.epoch])
    farthest = max(everyone)
    sources = [rank for rank, place in enumerate(everyone) if place == farthest]
    if farthest[0] == 0:
        sources = sources[:1]  # nobody has trained yet: all begin with the weights of the first
    others = [rank for rank in range(group.round.size) if rank not in sources]
    count = sum(_pass_on(group, state, sources[at % len(sources)], other) for at, other in enumerate(others))
    if others:
        group.all_gather([1])  # all have it, or nobody goes on in this round
    return count


def _pass_on(group: Group, state: TrainingState, source: int, other: int) -> int:
    if group.round.rank == source:
        transfer.send(group, state.capture(), other)
    elif group.round.rank == other:
        received, count = transfer.receive(group, source)
        state.load(received)
        return count
    return 0
