"""Booking: an account that is open, with what the job and its instances do now, and how time is added to it.

Every second is added to exactly one use of the job, and of each instance: `book` adds the time since the last call,
`move` takes a part that turns out to be another use's. So sums never depend on what was observed, or how often.
"""

import msgspec
from msgspec.structs import replace

from edl.ledger.amounts import NOTHING, Amounts
from edl.ledger.job_account import JobAccount, Spent
from edl.ledger.uses import Use


class OpenAccount(msgspec.Struct, frozen=True, omit_defaults=True):
    """`use` of the job's own time now, `uses` of its instances."""

    account: JobAccount
    use: Use = Use.WAITING
    uses: dict[Use, Amounts] = {}
    changing_for: float = 0.0
    """Seconds booked as changing since its members last changed."""
    training_for: float = 0.0
    """And as training."""

    @property
    def until(self) -> float:
        return self.account.until

    def same_uses(self, other: "OpenAccount") -> bool:
        """Whether the two will book alike."""
        return (self.use, self.uses) == (other.use, other.uses)


def opened(created: float) -> OpenAccount:
    return OpenAccount(JobAccount(created, created))


def book(opened: OpenAccount, seconds: float, *, estimated: bool = False) -> OpenAccount:
    """Adds the seconds since it was last booked. Time does not go back: less than nothing is nothing."""
    if seconds <= 0:
        return opened
    account, spent = opened.account, dict(opened.account.spent)
    for use in {opened.use, *opened.uses}:
        own = seconds if use is opened.use else 0.0
        spent[use] = spent.get(use, Spent()).plus(own, opened.uses.get(use, NOTHING) * seconds)
    return replace(
        opened,
        account=replace(
            account,
            until=account.until + seconds,
            spent=spent,
            estimated=account.estimated + (seconds if estimated else 0.0),
        ),
        changing_for=opened.changing_for + (seconds if opened.use is Use.CHANGING else 0.0),
        training_for=opened.training_for + (seconds if opened.use is Use.TRAINING else 0.0),
    )


def use_now(opened: OpenAccount, use: Use, uses: dict[Use, Amounts]) -> OpenAccount:
    """What the job and its instances do from now on."""
    used = {one: amounts for one, amounts in uses.items() if amounts != NOTHING}
    return opened if (use, used) == (opened.use, opened.uses) else replace(opened, use=use, uses=used)


def change_begins(opened: OpenAccount) -> OpenAccount:
    account = replace(opened.account, changes=opened.account.changes + 1)
    return replace(opened, account=account, changing_for=0.0, training_for=0.0)


def change_took(opened: OpenAccount, pause: float, running: Amounts) -> OpenAccount:
    """The job says for how long its last change stopped it: the rest of the time since then was training."""
    spare = opened.changing_for - pause
    if spare > 0:
        account = move(opened.account, Use.CHANGING, Use.TRAINING, spare, running)
        return replace(opened, account=account, changing_for=pause, training_for=opened.training_for + spare)
    lacking = min(-spare, opened.training_for)
    if lacking <= 0:
        return opened
    account = move(opened.account, Use.TRAINING, Use.CHANGING, lacking, running)
    return replace(
        opened,
        account=account,
        changing_for=opened.changing_for + lacking,
        training_for=opened.training_for - lacking,
    )


def move(account: JobAccount, source: Use, to: Use, seconds: float, running: Amounts) -> JobAccount:
    """Books time of `running` instances under another use; never more than is booked there."""
    have = account.of(source)
    seconds, wanted = min(seconds, have.seconds), running * seconds
    amounts = Amounts(
        min(wanted.instances, have.amounts.instances),
        min(wanted.gpus, have.amounts.gpus),
        min(wanted.cores, have.amounts.cores),
        min(wanted.gib, have.amounts.gib),
    )
    spent = account.spent | {
        source: have.plus(-seconds, amounts * -1),
        to: account.of(to).plus(seconds, amounts),
    }
    return replace(account, spent=spent)


def resume(kept: OpenAccount, known_until: float, now: float) -> OpenAccount:
    """What a predecessor kept, continued until now: up to `known_until` it is known that nothing changed; after that
    nobody looked, and it is estimated that nothing did."""
    known = book(kept, min(known_until, now) - kept.until)
    return book(known, now - known.until, estimated=True)


def begin(created: float, now: float) -> OpenAccount:
    """The account of a job that nobody kept one of: it is taken to have waited so far."""
    return book(opened(created), now - created, estimated=True)
