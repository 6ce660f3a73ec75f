"""The totals of the ledger as metrics: by namespace, what was booked, under this leader. They never go down."""

from collections.abc import Sequence

from edl.ledger.amounts import Amounts
from edl.ledger.job_account import JobAccount
from edl.operator.accounting.turns import in_turns
from edl.operator.reconcile.job_key import JobKey

Labels = tuple[str, str, str]
"""Namespace, resource, use."""


class LedgerTotals:
    """Time that turns out to be another use's is taken from a sum, but not from what was shown of it: a counter that
    goes down would be taken for one that starts anew."""

    def __init__(self) -> None:
        self.values: dict[Labels, float] = {}
        self._closed: dict[Labels, float] = {}

    def closed(self, namespace: str, account: JobAccount) -> None:
        """A job is gone; what it used stays."""
        _add(self._closed, namespace, account)

    async def book(self, accounts: Sequence[tuple[JobKey, JobAccount]]) -> None:
        sums = dict(self._closed)
        async for key, account in in_turns(accounts):
            _add(sums, key.namespace, account)
        for labels, value in sums.items():
            self.values[labels] = max(value, self.values.get(labels, 0.0))


def _add(sums: dict[Labels, float], namespace: str, account: JobAccount) -> None:
    for use, spent in account.spent.items():
        for resource in Amounts.__struct_fields__:
            value = getattr(spent.amounts, resource)
            if value > 0:
                labels = namespace, resource, str(use)
                sums[labels] = sums.get(labels, 0.0) + value
