"""Which samples of a stream's shards are trained, and which worker reads which shard. Pure.

Shards are begun in order. Those that are open are leased to the ranks of the present round; a rank that comes to the
end of one goes on to its next and is given another. All ranks compute the same, from what all said of the same batch.
When members change, or a step did not happen, what was read and not committed is leased again, from its last committed
sample on.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from edl.torch.data.shards import Lease

AHEAD = 2  # shards that a rank has, so that it need not wait for the others when one ends


@dataclass
class Position:
    """All shards before `begun` are trained, but for the `open` ones, of which so many samples are."""

    begun: int = 0
    open: dict[int, int] = field(default_factory=dict)

    def copy(self) -> "Position":
        return Position(self.begun, dict(self.open))


class ShardLedger:
    """`committed` goes with the state of the training."""

    def __init__(self, shards: int) -> None:
        self._shards = shards
        self.committed = Position()
        self._ahead = Position()
        self._leases: list[list[Lease]] = []
        self._ended: list[int] = []

    def lease(self, size: int) -> None:
        """To so many ranks, from what is committed."""
        self._ahead = self.committed.copy()
        found = sorted(self._ahead.open.items())
        self._leases = [found[rank::size] for rank in range(size)]
        self._ended = [0] * size
        self._fill()

    def leases(self, rank: int) -> Sequence[Lease]:
        """All since the members last changed, in order."""
        return tuple(self._leases[rank])

    def read(self, said: Sequence[Sequence[int]]) -> bool:
        """What each rank has read: samples, leases that ended, its position in the next. Whether there may be more."""
        for rank, (_, ended, offset) in enumerate(said):
            leases, first = self._leases[rank], self._ended[rank]
            for shard, _ in leases[first : first + ended]:
                del self._ahead.open[shard]
            self._ended[rank] = first + ended
            if self._ended[rank] < len(leases):
                self._ahead.open[leases[self._ended[rank]][0]] = offset
        self._fill()
        return bool(self._ahead.open)

    def _fill(self) -> None:
        """One at a time, so that the last shards are spread."""
        for wanted in range(1, AHEAD + 1):
            for rank, leases in enumerate(self._leases):
                if len(leases) - self._ended[rank] < wanted and self._ahead.begun < self._shards:
                    leases.append((self._ahead.begun, 0))
                    self._ahead.open[self._ahead.begun] = 0
                    self._ahead.begun += 1

    def commit(self) -> None:
        self.committed = self._ahead.copy()

    def next_epoch(self) -> None:
        self.committed = Position()

    def state_dict(self) -> dict[str, Any]:
        return {"begun": self.committed.begun, "open": dict(self.committed.open)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.committed = Position(int(state["begun"]), dict(state["open"]))
