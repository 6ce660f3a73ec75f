"""Who may send how much, and in which order."""

import asyncio

import pytest

from edl.kube.budget import Budget, Lane
from edl.kube.client import Client
from edl.kube.transport import DirectTransport
from tests.kube_runtime.scripted import DELETE, GET, OK, POST, Call, Script
from tests.virtual_time import virtual


@virtual
async def test_the_budget_limits_the_rate_after_a_burst() -> None:
    budget, loop = Budget(qps=10, burst=5), asyncio.get_running_loop()
    times = []
    for _ in range(25):
        await budget.acquire()
        times.append(loop.time())
    assert times[4] == 0
    assert times[24] == pytest.approx(2.0)
    await asyncio.sleep(100)
    for _ in range(5):
        await budget.acquire()
    assert loop.time() == pytest.approx(102.0), "an idle while saves up one burst, not more"


@virtual
async def test_lanes_overtake_each_other() -> None:
    budget, order = Budget(qps=1, burst=1), []
    await budget.acquire()

    async def ask(lane: Lane, name: str) -> None:
        await budget.acquire(lane)
        order.append(name)

    lanes = [(Lane.BACKGROUND, "event"), (Lane.NORMAL, "status"), (Lane.URGENT, "delete"), (Lane.NORMAL, "status2")]
    tasks = [asyncio.create_task(ask(lane, name)) for lane, name in lanes]
    await asyncio.sleep(0)
    await asyncio.wait_for(budget.acquire(Lane.EXEMPT), 0.001)
    await asyncio.gather(*tasks)
    assert order == ["delete", "status", "status2", "event"]


@virtual
async def test_a_turn_that_is_cancelled_goes_to_the_next() -> None:
    budget = Budget(qps=1, burst=1)
    await budget.acquire()
    first, second = asyncio.create_task(budget.acquire()), asyncio.create_task(budget.acquire())
    await asyncio.sleep(0.5)
    first.cancel()
    await second
    assert asyncio.get_running_loop().time() == pytest.approx(1.0)
    third = asyncio.create_task(budget.acquire())
    asyncio.get_running_loop().call_later(1.0, third.cancel)  # granted and cancelled in the same turn of the loop
    await asyncio.gather(first, third, return_exceptions=True)
    await budget.acquire()
    assert asyncio.get_running_loop().time() <= 3.0


@pytest.mark.parametrize(("call", "lane"), [(DELETE, Lane.URGENT), (GET, Lane.NORMAL), (POST, Lane.NORMAL)])
@virtual
async def test_what_frees_resources_takes_the_urgent_lane(call: Call, lane: Lane) -> None:
    used: list[Lane] = []

    class Spy(Budget):
        async def acquire(self, lane: Lane = Lane.NORMAL) -> None:
            used.append(lane)

    await call(Client(DirectTransport(Script(OK)), budget=Spy()))
    assert used == [lane]


@pytest.mark.parametrize(("qps", "burst"), [(0, 1), (1, 0)])
def test_a_budget_that_lets_nothing_through_is_refused(qps: float, burst: int) -> None:
    with pytest.raises(ValueError, match="qps must be above 0"):
        Budget(qps=qps, burst=burst)
