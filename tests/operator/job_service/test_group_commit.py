"""Group commit under every way in which a write can go wrong."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from edl.operator.job_service.group_commit import MAX_WAITING, DurableState, RateLimiter
from edl.operator.job_service.record import JobRecord
from edl.operator.job_service.refusals import RefusedError
from edl.operator.job_service.state import JobState, put
from edl.operator.job_service.store import ConflictError, MemoryStore, Stored, UnavailableError
from tests.operator.job_service.timeline import Timeline, settle

RECORD = JobRecord(uid="u", token="t")
Fault = Callable[["FaultyStore", JobState], Awaitable[None]]


class FaultyStore(MemoryStore):
    """Before or after the next saves, something else happens."""

    def __init__(self) -> None:
        super().__init__()
        self.before: list[Fault] = []
        self.after: list[Fault] = []
        self.unreadable = 0

    async def load(self, namespace: str, name: str, record: JobRecord) -> Stored | None:
        if self.unreadable:
            self.unreadable -= 1
            raise UnavailableError("cannot read")
        return await super().load(namespace, name, record)

    async def save(self, namespace: str, name: str, record: JobRecord, state: JobState, version: str | None) -> str:
        if self.before:
            await self.before.pop(0)(self, state)
        saved = await super().save(namespace, name, record, state, version)
        if self.after:
            await self.after.pop(0)(self, state)
        return saved


async def unavailable(store: FaultyStore, state: JobState) -> None:
    raise UnavailableError("no answer")


async def unavailable_and_unreadable(store: FaultyStore, state: JobState) -> None:
    store.unreadable = 1
    raise UnavailableError("no answer")


async def touched(store: FaultyStore, state: JobState) -> None:
    """Somebody adds a label: same content, new version."""
    for key, stored in store.kept.items():
        store.kept[key] = Stored(stored.state, stored.version + "x")


async def deleted(store: FaultyStore, state: JobState) -> None:
    store.kept.clear()


async def usurped(store: FaultyStore, state: JobState) -> None:
    """Another leader writes first."""
    other, _ = put(JobState(revision=7, writer="other"), "k", b"theirs", None)
    store.kept["ns", "job", "u"] = Stored(other, "another")


def durable(
    store: MemoryStore, time: Timeline, name: str = "job", limiter: RateLimiter | None = None, burst: int = 1
) -> DurableState:
    limiter = limiter or RateLimiter(clock=time.clock, sleep=time.sleep)
    return DurableState(
        "ns", name, RECORD, store=store, limiter=limiter, clock=time.clock, sleep=time.sleep, writer="me", burst=burst
    )


def putting(data: bytes, key: str = "k") -> Callable[[JobState], tuple[JobState, int]]:
    return partial(put, key=key, data=data, expected=None)


async def test_writes_within_a_second_become_one_and_are_answered_after_it() -> None:
    time, store = Timeline(), MemoryStore()
    job = durable(store, time)
    await asyncio.wait_for(job.write(putting(b"0")), 60)
    writes = [asyncio.create_task(job.write(putting(b"%d" % i, f"k{i}"))) for i in range(5)]
    await time.advance(0.9)
    assert not any(write.done() for write in writes)
    assert (store.writes, list(job.committed.values)) == (1, ["k"]), "readers see nothing that is not durable"
    await time.advance(0.2)
    assert [write.result() for write in writes] == [2, 3, 4, 5, 6]
    assert (store.writes, len(job.committed.values)) == (2, 6)


async def test_a_job_that_begins_writes_a_few_times_at_once_and_once_a_second_after_that() -> None:
    time, store = Timeline(), MemoryStore()
    job = durable(store, time, burst=3)

    async def written_within(seconds: float) -> int:
        before = store.writes
        writing = asyncio.create_task(_one_after_another(job))
        await time.advance(seconds)
        writing.cancel()
        await settle()
        return store.writes - before

    assert await written_within(0.5) == 3
    assert await written_within(10.0) == 10
    await time.advance(1.9)
    assert await written_within(0.5) == 1, "what it did not use in the meantime"
    await time.advance(60.0)
    assert await written_within(0.5) == 3


async def _one_after_another(job: DurableState) -> None:
    for number in range(100):
        await job.write(putting(b"%d" % number))


async def test_all_jobs_share_fifty_writes_a_second() -> None:
    time, store = Timeline(), MemoryStore()
    limiter = RateLimiter(clock=time.clock, sleep=time.sleep)
    writes = [asyncio.create_task(durable(store, time, f"j{i}", limiter).write(putting(b""))) for i in range(120)]
    await time.advance(0.999)
    assert store.writes == 50
    await time.advance(2.0)
    assert all(write.done() for write in writes)


async def test_a_change_that_changes_nothing_waits_for_the_write_that_holds_it() -> None:
    time = Timeline()
    job = durable(MemoryStore(), time)
    await job.write(putting(b"0"))
    first = asyncio.create_task(job.write(putting(b"1")))
    await settle()
    same = asyncio.create_task(job.write(lambda state: (state, 42)))
    await time.advance(0.5)
    assert not same.done()
    await time.advance(1.0)
    assert (first.done(), same.result()) == (True, 42)
    assert await asyncio.wait_for(job.write(lambda state: (state, 43)), 1) == 43


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param([unavailable], [], id="never arrived"),
        pytest.param([unavailable] * 3, [], id="down for a while"),
        pytest.param([], [unavailable], id="written, answer lost"),
        pytest.param([], [unavailable_and_unreadable], id="written, answer lost, then unreadable"),
        pytest.param([touched], [], id="touched by hand"),
        pytest.param([deleted], [], id="deleted by hand"),
    ],
)
async def test_a_write_whose_outcome_is_unclear_is_found_out_and_finished(
    before: list[Fault], after: list[Fault]
) -> None:
    time, store = Timeline(), FaultyStore()
    job = durable(store, time)
    await job.write(putting(b"old"))
    store.before, store.after = list(before), list(after)
    write = asyncio.create_task(job.write(putting(b"new")))
    await time.advance(1.0)
    later = asyncio.create_task(job.write(putting(b"later", "l")))
    await time.advance(10.0)
    assert (write.result(), later.result()) == (2, 3)
    stored = store.kept["ns", "job", "u"].state
    assert {key: value.data for key, value in stored.values.items()} == {"k": b"new", "l": b"later"}
    assert stored == job.committed


async def test_a_leader_that_was_overtaken_breaks_its_promise_and_starts_from_what_is_stored() -> None:
    time, store = Timeline(), FaultyStore()
    job = durable(store, time)
    await job.write(putting(b"old"))
    store.before = [usurped]
    write = asyncio.create_task(job.write(putting(b"mine")))
    await time.advance(1.0)
    with pytest.raises(RefusedError, match="written by another"):
        write.result()
    assert job.committed.values["k"].data == b"theirs"
    again = asyncio.create_task(job.write(putting(b"mine")))
    await time.advance(2.0)
    assert again.result() == 9


async def test_a_leader_that_retires_answers_503_and_writes_no_more() -> None:
    time, store = Timeline(), MemoryStore()
    job = durable(store, time)
    await job.write(putting(b"0"))
    write = asyncio.create_task(job.write(putting(b"1")))
    await settle()
    job.close()
    await time.advance(5.0)
    for attempt in (write, asyncio.create_task(job.write(putting(b"2")))):
        with pytest.raises(RefusedError, match="no longer leads"):
            await attempt
    assert store.writes == 1


async def test_a_job_with_too_many_waiting_calls_is_told_to_come_back() -> None:
    time = Timeline()
    job = durable(MemoryStore(), time)
    await job.write(putting(b""))
    writes = [asyncio.create_task(job.write(putting(b""))) for _ in range(MAX_WAITING)]
    await settle()
    with pytest.raises(RefusedError) as refused:
        await job.write(putting(b""))
    assert (refused.value.status, refused.value.body.retry_after) == (429, 1)
    await time.advance(1.0)
    assert all(write.done() for write in writes)


async def test_what_cannot_be_loaded_is_unavailable_and_loaded_later() -> None:
    store = FaultyStore()
    store.unreadable = 1
    job = durable(store, Timeline())
    with pytest.raises(UnavailableError):
        await job.load()
    assert await job.load() == JobState()


async def test_the_memory_store_compares() -> None:
    store = MemoryStore()
    version = await store.save("ns", "j", RECORD, JobState(), None)
    with pytest.raises(ConflictError):
        await store.save("ns", "j", RECORD, JobState(), None)
    assert await store.save("ns", "j", RECORD, JobState(), version) != version


async def test_a_write_that_cannot_wait_goes_at_once_and_takes_others_along() -> None:
    time, store = Timeline(), MemoryStore()
    state = durable(store, time)
    await state.write(putting(b"first"))
    patient = asyncio.create_task(state.write(putting(b"second", "other")))
    await time.advance(0.2)
    assert store.writes == 1
    hasty = asyncio.create_task(state.write(putting(b"third"), at_once=True))
    await time.advance(0.05)
    assert (store.writes, patient.done(), hasty.done()) == (2, True, True)
    later = asyncio.create_task(state.write(putting(b"fourth")))
    await time.advance(0.5)
    assert (store.writes, later.done()) == (2, False), "the hurry was of that one alone"
    await time.advance(2.0)
    assert (store.writes, later.done()) == (3, True)
