"""The capacity of the cluster is booked once, and what is free in vain has its reason."""

import math

from hypothesis import given
from hypothesis import strategies as st

from edl.ledger.amounts import Amounts, total
from edl.ledger.cluster_account import ClusterAccount, book_cluster, divide, since
from edl.ledger.uses import CapacityUse

amounts = st.builds(Amounts, st.integers(0, 50).map(float), st.floats(0, 64), st.floats(0, 512), st.floats(0, 4096))


@given(
    st.lists(
        st.tuples(amounts, amounts, amounts, st.dictionaries(st.sampled_from(CapacityUse), amounts), st.floats(0, 100))
    )
)
def test_the_uses_add_up_to_the_capacity(
    history: list[tuple[Amounts, Amounts, Amounts, dict[CapacityUse, Amounts], float]],
) -> None:
    account = ClusterAccount()
    for capacity, used, by_jobs, wanted, seconds in history:
        account = book_cluster(account, divide(capacity, used, by_jobs, wanted), seconds)
    found = total(account.uses.values())
    for name in ("gpus", "cores", "gib"):
        assert math.isclose(getattr(found, name), getattr(account.capacity, name), rel_tol=1e-9, abs_tol=1e-6)
    assert all(min(one.gpus, one.cores, one.gib) >= 0 for one in account.uses.values())


def test_free_capacity_is_blamed_only_as_far_as_somebody_wants_it() -> None:
    now = divide(
        Amounts(gpus=16, cores=100),
        Amounts(gpus=8, cores=40),
        Amounts(instances=3, gpus=6, cores=24),
        {CapacityUse.QUOTA: Amounts(gpus=2, cores=4), CapacityUse.FRAGMENTATION: Amounts(gpus=100, cores=8)},
    )
    assert now.uses == {
        CapacityUse.JOBS: Amounts(3, 6, 24),
        CapacityUse.OTHERS: Amounts(gpus=2, cores=16),
        CapacityUse.QUOTA: Amounts(gpus=2, cores=4),
        CapacityUse.FRAGMENTATION: Amounts(gpus=6, cores=8),
        CapacityUse.FREE: Amounts(cores=48),
    }


def test_a_period_is_the_difference_of_two_accounts() -> None:
    now = divide(Amounts(gpus=4), Amounts(gpus=1), Amounts(gpus=1))
    first = book_cluster(ClusterAccount(), now, 60)
    second = book_cluster(first, now, 30, estimated=True)
    assert since(second, first) == ClusterAccount(
        30, 30, Amounts(gpus=120), {CapacityUse.JOBS: Amounts(gpus=30), CapacityUse.FREE: Amounts(gpus=90)}
    )
