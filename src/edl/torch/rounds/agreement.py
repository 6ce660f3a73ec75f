"""Agrees on the step after which members change, without a message: numbers that every all-reduce carries. Pure.

Each member adds what it has prepared: by how much the round that it is ready for is newer than the present one. When
all who stay are ready for the same round, all of them, and those who leave, see it in the same sum.
"""

from collections.abc import Sequence
from dataclasses import dataclass

NUMBERS = 5


@dataclass(frozen=True)
class Offer:
    """What one member says: how many samples its gradients are of, whether it leaves, and which round it is ready for
    (as a difference; 0: none). The last number is left to whoever has the gradients: their squared norm."""

    samples: int
    leaving: bool = False
    ahead: int = 0

    def numbers(self) -> list[float]:
        ahead = 0 if self.leaving else self.ahead
        return [float(self.samples), float(self.leaving), float(ahead), float(ahead * ahead), 0.0]


@dataclass(frozen=True)
class Agreement:
    """What the sums say: how many samples the step has, and whether all change after it (`ahead` > 0) or end.

    `squares` is the sum of the squared norms of the members' own gradients, where they measured them."""

    samples: int
    ahead: int = 0
    ends: bool = False
    squares: float = 0.0

    @classmethod
    def read(cls, sums: Sequence[float], members: int) -> "Agreement":
        samples, leaving, ahead, squares = (round(number) for number in sums[:4])
        staying = members - leaving
        same = staying > 0 and ahead > 0 and ahead % staying == 0 and ahead * ahead == staying * squares
        return cls(samples, ahead // staying if same else 0, ends=staying == 0, squares=sums[4])
