"""Which checkpoint all ranks load: the newest that any of them has, in memory or on disk, and all the same one.

Ranks that have it take their own; the others are sent it. A file that turns out to be damaged is passed over, by all.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from edl.torch.checkpoints.peers import Peers
from edl.torch.rounds import transfer

log = logging.getLogger(__name__)

STEP, BRANCH = "step", "edl_branch"
State = dict[str, Any]


@dataclass(frozen=True)
class Source:
    """One place that has checkpoints. `read` gives None if what was there cannot be had."""

    name: str
    steps: list[int]
    read: Callable[[int], State | None]


@dataclass(frozen=True)
class Chosen:
    state: State
    where: str


def choose(peers: Peers, sources: list[Source]) -> Chosen | None:
    """All ranks call this, each with its own sources, those that are to be preferred first."""
    passed_over: set[int] = set()
    while True:
        mine = {step for source in sources for step in source.steps} - passed_over
        newest = max((max(steps, default=-1) for steps in peers.gather(sorted(mine)[-1:])), default=-1)
        if newest < 0:
            return None
        own = _own(sources, newest)
        branches = [numbers[0] for numbers in peers.all_gather([own.state[BRANCH] if own else -1])]
        if max(branches) >= 0:
            return _exchange(peers, own, branches)
        passed_over.add(newest)


def _own(sources: list[Source], step: int) -> Chosen | None:
    for source in sources:
        if step in source.steps:
            state = source.read(step)
            if state is not None and state.get(STEP) == step and isinstance(state.get(BRANCH), int):
                return Chosen(state, source.name)
    return None


def _exchange(peers: Peers, own: Chosen | None, branches: list[int]) -> Chosen:
    """Of the same step two may exist, if the training began anew before it: the later one counts."""
    best = max(branches)
    having = [rank for rank in range(peers.size) if branches[rank] == best]
    lacking = [rank for rank in range(peers.size) if branches[rank] != best]
    for at, rank in enumerate(lacking):
        source = having[at % len(having)]
        if peers.rank == source:
            assert own is not None
            transfer.send(peers, own.state, rank)
        elif peers.rank == rank:
            state, _ = transfer.receive(peers, source)
            own = Chosen(state, "a neighbour")
    if lacking:
        peers.all_gather([1])  # all have it, or nobody goes on
    assert own is not None
    return own
