"""The report of a period: who used what, how well, how long jobs waited, and what changes cost."""

from collections.abc import Iterable, Sequence

import msgspec

from edl.ledger.amounts import NOTHING, Amounts, total
from edl.ledger.job_account import JobAccount, Spent, useful_share
from edl.ledger.uses import HELD, CapacityUse, Use


class PeriodLine(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One namespace, or one job of it, in the period."""

    namespace: str
    name: str = ""
    """Empty: all jobs of the namespace."""
    uid: str = ""
    outcome: str = ""
    jobs: int = 1
    spent: dict[Use, Spent] = {}
    changes: int = 0
    estimated: float = 0.0

    @property
    def held(self) -> Amounts:
        return total(self.spent[use].amounts for use in HELD if use in self.spent)

    @property
    def goodput(self) -> float | None:
        return useful_share({use: spent.amounts for use, spent in self.spent.items()})

    @property
    def waited(self) -> float:
        """Seconds that its jobs waited, all together."""
        return self.spent.get(Use.WAITING, Spent()).seconds

    @property
    def lost(self) -> Amounts:
        """What changes of members cost: regrouping, moving state, and steps done again."""
        return total(self.spent[use].amounts for use in (Use.CHANGING, Use.RECOMPUTING) if use in self.spent)


class PeriodReport(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """`cluster` is in seconds, too (GPU-seconds of capacity and so on); empty if the reader may not see it."""

    since: float
    until: float
    namespaces: tuple[PeriodLine, ...] = ()
    jobs: tuple[PeriodLine, ...] = ()
    capacity: Amounts = NOTHING
    cluster: dict[CapacityUse, Amounts] = {}
    observed: float = 0.0
    """Seconds of the period that the cluster's account covers."""


def account_at(accounts: Sequence[JobAccount], moment: float) -> JobAccount | None:
    """What was booked by a moment, from accounts of one job in the order of time: in proportion between two of them, so
    that periods that follow each other add up. None: before the first one is nothing."""
    before: JobAccount | None = None
    for account in accounts:
        if account.until >= moment:
            return _between(before, account, moment)
        before = account
    return before


def _between(before: JobAccount | None, after: JobAccount, moment: float) -> JobAccount | None:
    """A job's account begins with nothing, when it is created."""
    start = before or JobAccount(after.since, after.since)
    if moment <= start.until or after.until <= start.until:
        return start if before is not None or moment >= start.since else None
    share = (moment - start.until) / (after.until - start.until)
    spent = {
        use: Spent(
            _part(start.of(use).seconds, after.of(use).seconds, share),
            start.of(use).amounts + (after.of(use).amounts - start.of(use).amounts) * share,
        )
        for use in Use
        if use in after.spent or use in start.spent
    }
    return JobAccount(
        after.since,
        moment,
        spent,
        _part(start.estimated, after.estimated, share),
        start.changes + round((after.changes - start.changes) * share),
    )


def _part(start: float, end: float, share: float) -> float:
    return start + (end - start) * share


def period_of(accounts: Sequence[JobAccount], since: float, until: float) -> JobAccount | None:
    """What was booked in a period, as an account of its own; None if that is nothing."""
    end = account_at(accounts, until)
    if end is None or end.until <= since:
        return None
    start = account_at(accounts, since)
    if start is None:
        return end
    spent = {
        use: Spent(one.seconds - start.of(use).seconds, one.amounts - start.of(use).amounts)
        for use, one in end.spent.items()
    }
    estimated, changes = end.estimated - start.estimated, end.changes - start.changes
    return JobAccount(start.until, end.until, spent, max(0.0, estimated), max(0, changes))


def summed(namespace: str, lines: Iterable[PeriodLine]) -> PeriodLine:
    """All jobs of a namespace as one line."""
    of_all = list(lines)
    spent: dict[Use, Spent] = {}
    for line in of_all:
        for use, one in line.spent.items():
            spent[use] = spent.get(use, Spent()).plus(one.seconds, one.amounts)
    return PeriodLine(
        namespace=namespace,
        jobs=len(of_all),
        spent=spent,
        changes=sum(line.changes for line in of_all),
        estimated=sum(line.estimated for line in of_all),
    )


def by_namespace(lines: Sequence[PeriodLine]) -> tuple[PeriodLine, ...]:
    """One line for each namespace, who held most first."""
    namespaces = sorted({line.namespace for line in lines})
    found = [summed(one, (line for line in lines if line.namespace == one)) for one in namespaces]
    return tuple(sorted(found, key=lambda line: (-line.held.gpus, -line.held.cores, line.namespace)))
