"""The workqueue's promises: nothing twice at once, nothing lost, failures back off, the end is orderly."""

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edl.kube.controllers.workqueue import QueueClosedError, WorkQueue
from tests.virtual_time import run, virtual


def queue() -> WorkQueue[str]:
    return WorkQueue(base=1.0, cap=60.0, rng=random.Random(1))


async def take(work: WorkQueue[str]) -> list[str]:
    """Everything that is ready now."""
    keys = []
    while len(work):
        key, _ = await work.get()
        work.done(key)
        keys.append(key)
    return keys


@virtual
async def test_equal_keys_collapse_and_keep_their_place() -> None:
    work = queue()
    for key in ("a", "b", "a", "c", "b"):
        work.add(key)
    assert len(work) == 3
    assert await take(work) == ["a", "b", "c"]


@virtual
async def test_a_key_is_never_worked_on_twice_at_once_and_never_forgotten() -> None:
    work = queue()
    work.add("a")
    key, _ = await work.get()
    work.add("a")
    work.add("a")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(10):
            await work.get()
    work.done(key)
    assert await take(work) == ["a"]


@virtual
async def test_priorities_go_first_and_can_be_raised() -> None:
    work = queue()
    work.add("low", priority=5)
    work.add("normal")
    work.add("high", priority=-1)
    work.add("raised", priority=9)
    work.add("raised", priority=-5)
    work.add("raised", priority=7)
    assert await take(work) == ["raised", "high", "normal", "low"]


@virtual
async def test_a_priority_given_during_the_work_counts_after_it() -> None:
    work = queue()
    work.add("a", priority=3)
    await work.get()
    work.add("a", priority=-1)
    work.add("b")
    work.done("a")
    assert await take(work) == ["a", "b"]


@virtual
async def test_delayed_adds_come_when_due_and_the_soonest_counts() -> None:
    work, time = queue(), asyncio.get_running_loop().time
    work.add("later", delay=30)
    work.add("soon", delay=10)
    work.add("soon", delay=20)
    work.add("sooner", delay=50)
    work.add("sooner", delay=5)
    assert (len(work), work.delayed) == (0, 3)
    arrivals = []
    for _ in range(3):
        key, waited = await work.get()
        arrivals.append((key, round(time())))
        assert waited == 0
        work.done(key)
    assert arrivals == [("sooner", 5), ("soon", 10), ("later", 30)]


@virtual
async def test_an_add_now_overtakes_a_delayed_one() -> None:
    work = queue()
    work.add("a", delay=100, priority=-3)
    work.add("b")
    work.add("a")
    assert work.delayed == 0
    assert await take(work) == ["a", "b"], "with the better of its priorities"
    await asyncio.sleep(200)
    assert len(work) == 0, "and comes once"


@virtual
async def test_failures_back_off_up_to_a_cap_until_forgotten() -> None:
    work = queue()
    delays = [work.retry("a") for _ in range(12)]
    for number, delay in enumerate(delays):
        limit = min(60.0, 2.0**number)
        assert limit / 2 <= delay <= limit
    assert work.failures("a") == 12
    work.forget("a")
    assert work.retry("a") <= 1.0
    assert work.retry("b") <= 1.0, "a key's failures are its own"


@virtual
async def test_waiting_is_measured_from_the_first_add() -> None:
    work = queue()
    work.add("a")
    await asyncio.sleep(7)
    work.add("a", priority=-1)
    await asyncio.sleep(3)
    _, waited = await work.get()
    assert waited == pytest.approx(10)


@virtual
async def test_a_cancelled_worker_takes_no_key_with_it() -> None:
    work = queue()
    waiting = [asyncio.create_task(work.get()) for _ in range(3)]
    await asyncio.sleep(0)
    work.add("a")
    for task in waiting[:2]:
        task.cancel()
    assert (await waiting[2])[0] == "a"
    await asyncio.gather(*waiting[:2], return_exceptions=True)


@virtual
async def test_drain_finishes_what_is_ready_drops_what_is_delayed_and_ends_the_workers() -> None:
    work, done = queue(), []

    async def worker() -> None:
        while True:
            try:
                key, _ = await work.get()
            except QueueClosedError:
                return
            await asyncio.sleep(2)
            done.append(key)
            work.done(key)

    workers = [asyncio.create_task(worker()) for _ in range(2)]
    for key in ("a", "b", "c"):
        work.add(key)
    work.add("delayed", delay=1)
    await asyncio.sleep(0.5)
    work.add("a")
    draining = asyncio.create_task(work.drain())
    await asyncio.sleep(0)
    work.add("too late")
    await draining
    await asyncio.gather(*workers)
    assert sorted(done) == ["a", "a", "b", "c"]


@virtual
async def test_an_empty_queue_drains_at_once() -> None:
    work = queue()
    await work.drain()
    with pytest.raises(QueueClosedError):
        await work.get()


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["add", "later", "retry", "wait"]), st.sampled_from("abcd"), st.integers(-2, 2), st.floats(0, 9)
    ),
    max_size=60,
)


async def carry_out(
    work: WorkQueue[str], wanted: dict[str, float], what: str, key: str, priority: int, number: float
) -> None:
    """One of OPERATIONS; `wanted` is when each key was last asked for."""
    if what == "wait":
        await asyncio.sleep(number)
        return
    if what == "retry":
        work.retry(key, priority=priority)
    else:
        work.add(key, priority=priority, delay=number if what == "later" else 0.0)
    wanted[key] = asyncio.get_running_loop().time()


@settings(max_examples=60, deadline=None)
@given(OPERATIONS, st.integers(1, 3))
def test_whatever_is_added_is_worked_on_after_it_was_added(
    operations: list[tuple[str, str, int, float]], n: int
) -> None:
    """Random adds against slow workers: no overlap per key, and every add is followed by a start of its key."""

    async def story() -> None:
        work, time = queue(), asyncio.get_running_loop().time
        started: dict[str, float] = {}
        wanted: dict[str, float] = {}
        working: set[str] = set()
        rng = random.Random(3)

        async def worker() -> None:
            while True:
                key, _ = await work.get()
                assert key not in working
                working.add(key)
                started[key] = time()
                await asyncio.sleep(rng.uniform(0, 4))
                working.discard(key)
                work.done(key)

        workers = [asyncio.create_task(worker()) for _ in range(n)]
        for operation in operations:
            await carry_out(work, wanted, *operation)
        await asyncio.sleep(1000)
        assert all(started[key] >= when for key, when in wanted.items())
        assert not working
        assert len(work) == work.delayed == work.working == 0
        for task in workers:
            assert not task.done()
            task.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

    run(story())
