"""The account of the cluster's capacity: used by jobs, by others, free, or free and of no use to those who want it.

Invariant: the uses add up to the capacity of usable nodes, at every moment and so over time.
"""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from edl.ledger.amounts import NOTHING, Amounts
from edl.ledger.uses import CapacityUse

_FIRST_TO_BLAME = (CapacityUse.QUOTA, CapacityUse.LOAD_CAP, CapacityUse.FREEZING, CapacityUse.FRAGMENTATION)
"""What is free is booked once, though several may be kept from it for different reasons."""


class ClusterNow(msgspec.Struct, frozen=True, omit_defaults=True):
    capacity: Amounts = NOTHING
    uses: dict[CapacityUse, Amounts] = {}


class ClusterAccount(msgspec.Struct, frozen=True, omit_defaults=True):
    """Amounts are over time: GPU-seconds and so on. `seconds` of it were observed or estimated."""

    seconds: float = 0.0
    estimated: float = 0.0
    capacity: Amounts = NOTHING
    uses: dict[CapacityUse, Amounts] = {}


class KeptCluster(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the leader keeps every now and then. `until` is also how far the account of every job is known that was kept
    earlier: it had not changed by then, unless it is in `behind`, which says until when it had not."""

    until: float
    behind: dict[str, float] = {}
    account: ClusterAccount = ClusterAccount()
    now: ClusterNow = ClusterNow()


def divide(
    capacity: Amounts, used: Amounts, by_jobs: Amounts, wanted: Mapping[CapacityUse, Amounts] | None = None
) -> ClusterNow:
    """What is free is blamed on a reason only as far as jobs want it."""
    used = _least(used, capacity)
    jobs = _least(by_jobs, used)
    uses = {CapacityUse.JOBS: replace(jobs, instances=by_jobs.instances), CapacityUse.OTHERS: _counted(used - jobs)}
    free = _counted(capacity - used)
    for why in _FIRST_TO_BLAME:
        blamed = _least((wanted or {}).get(why, NOTHING), free)
        uses[why], free = blamed, _counted(free - blamed)
    uses[CapacityUse.FREE] = free
    filled = {use: amounts for use, amounts in uses.items() if amounts != NOTHING}
    return ClusterNow(replace(capacity, instances=by_jobs.instances), filled)


def book_cluster(
    account: ClusterAccount, now: ClusterNow, seconds: float, *, estimated: bool = False
) -> ClusterAccount:
    if seconds <= 0:
        return account
    uses = dict(account.uses)
    for use, amounts in now.uses.items():
        uses[use] = uses.get(use, NOTHING) + amounts * seconds
    return ClusterAccount(
        account.seconds + seconds,
        account.estimated + (seconds if estimated else 0.0),
        account.capacity + now.capacity * seconds,
        uses,
    )


def since(account: ClusterAccount, earlier: ClusterAccount) -> ClusterAccount:
    """What was booked after an earlier state of the same account."""
    uses = {use: amounts - earlier.uses.get(use, NOTHING) for use, amounts in account.uses.items()}
    return ClusterAccount(
        account.seconds - earlier.seconds,
        account.estimated - earlier.estimated,
        account.capacity - earlier.capacity,
        {use: amounts for use, amounts in uses.items() if amounts != NOTHING},
    )


def _least(one: Amounts, other: Amounts) -> Amounts:
    """Of capacity, that is without instances."""
    return Amounts(0.0, min(one.gpus, other.gpus), min(one.cores, other.cores), min(one.gib, other.gib))


def _counted(amounts: Amounts) -> Amounts:
    return Amounts(0.0, max(0.0, amounts.gpus), max(0.0, amounts.cores), max(0.0, amounts.gib))
