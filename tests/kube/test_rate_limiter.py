"""Rate limiting: how many requests pass, and in which order."""

import asyncio

import pytest

from edl.kube.rest.client import Client
from edl.kube.rest.rate_limiter import RateLimiter, RequestPriority
from edl.kube.rest.transport import DirectTransport
from tests.kube.scripted import DELETE, GET, OK, POST, Call, Script
from tests.virtual_time import virtual


@virtual
async def test_the_budget_limits_the_rate_after_a_burst() -> None:
    limiter, loop = RateLimiter(qps=10, burst=5), asyncio.get_running_loop()
    times = []
    for _ in range(25):
        await limiter.acquire()
        times.append(loop.time())
    assert times[4] == 0
    assert times[24] == pytest.approx(2.0)
    await asyncio.sleep(100)
    for _ in range(5):
        await limiter.acquire()
    assert loop.time() == pytest.approx(102.0), "an idle while saves up one burst, not more"


@virtual
async def test_higher_priorities_overtake_lower_ones() -> None:
    limiter, order = RateLimiter(qps=1, burst=1), []
    await limiter.acquire()

    async def ask(priority: RequestPriority, name: str) -> None:
        await limiter.acquire(priority)
        order.append(name)

    requests = [
        (RequestPriority.BACKGROUND, "event"),
        (RequestPriority.NORMAL, "status"),
        (RequestPriority.URGENT, "delete"),
        (RequestPriority.NORMAL, "status2"),
    ]
    tasks = [asyncio.create_task(ask(priority, name)) for priority, name in requests]
    await asyncio.sleep(0)
    await asyncio.wait_for(limiter.acquire(RequestPriority.EXEMPT), 0.001)
    await asyncio.gather(*tasks)
    assert order == ["delete", "status", "status2", "event"]


@virtual
async def test_a_turn_that_is_cancelled_goes_to_the_next() -> None:
    limiter = RateLimiter(qps=1, burst=1)
    await limiter.acquire()
    first, second = asyncio.create_task(limiter.acquire()), asyncio.create_task(limiter.acquire())
    await asyncio.sleep(0.5)
    first.cancel()
    await second
    assert asyncio.get_running_loop().time() == pytest.approx(1.0)
    third = asyncio.create_task(limiter.acquire())
    asyncio.get_running_loop().call_later(1.0, third.cancel)  # granted and cancelled in the same turn of the loop
    await asyncio.gather(first, third, return_exceptions=True)
    await limiter.acquire()
    assert asyncio.get_running_loop().time() <= 3.0


@pytest.mark.parametrize(
    ("call", "priority"),
    [(DELETE, RequestPriority.URGENT), (GET, RequestPriority.NORMAL), (POST, RequestPriority.NORMAL)],
)
@virtual
async def test_requests_that_free_resources_are_urgent(call: Call, priority: RequestPriority) -> None:
    used: list[RequestPriority] = []

    class Spy(RateLimiter):
        async def acquire(self, priority: RequestPriority = RequestPriority.NORMAL) -> None:
            used.append(priority)

    await call(Client(DirectTransport(Script(OK)), rate_limiter=Spy()))
    assert used == [priority]


@pytest.mark.parametrize(("qps", "burst"), [(0, 1), (1, 0)])
def test_a_budget_that_lets_nothing_through_is_refused(qps: float, burst: int) -> None:
    with pytest.raises(ValueError, match="qps must be above 0"):
        RateLimiter(qps=qps, burst=burst)
