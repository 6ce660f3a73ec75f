"""The account of one job: what its wall time and the time of its instances went to, from its creation on.

Invariant: the seconds of all uses are `until - since`, whatever happened and however often somebody else took over.
"""

from collections.abc import Mapping

import msgspec

from edl.ledger.amounts import NOTHING, Amounts, total
from edl.ledger.uses import HELD, Use


class Spent(msgspec.Struct, frozen=True, omit_defaults=True):
    """`seconds` of the job's own wall time; `amounts`: instance-seconds and the like."""

    seconds: float = 0.0
    amounts: Amounts = NOTHING

    def plus(self, seconds: float, amounts: Amounts) -> "Spent":
        return Spent(self.seconds + seconds, self.amounts + amounts)


class JobAccount(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything is in seconds; points in time are since 1970."""

    since: float
    until: float
    """Everything before it is booked."""
    spent: dict[Use, Spent] = {}
    estimated: float = 0.0
    """Seconds of it that nobody saw: an operator had died, and its successor took it that nothing had changed."""
    changes: int = 0
    """Changes of its members while it trained."""

    @property
    def seconds(self) -> float:
        return self.until - self.since

    def of(self, use: Use) -> Spent:
        return self.spent.get(use, Spent())

    @property
    def held(self) -> Amounts:
        """What it occupied, whatever for."""
        return total(self.of(use).amounts for use in HELD)

    @property
    def goodput(self) -> float | None:
        """The useful share of what it held: training that counted. None as long as it has held nothing."""
        return useful_share({use: spent.amounts for use, spent in self.spent.items()})


def useful_share(amounts: Mapping[Use, Amounts]) -> float | None:
    held = total(amounts.get(use, NOTHING) for use in HELD)
    useful = amounts.get(Use.TRAINING, NOTHING)
    if held.gpus:
        return useful.gpus / held.gpus
    return useful.scarcest / held.scarcest if held.scarcest else None
