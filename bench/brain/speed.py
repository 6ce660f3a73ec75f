"""Latency of a plan with many past jobs, at rest and under a load of reports, and the cost of a report."""

import asyncio
import random
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
from bench.brain.served import EMPTY, KEY, SERVER, Served, served

from edl.brain.policy.past_jobs import JobSummary, PeakUsage
from edl.brain.quotas import Quota
from edl.brain.sqlite import SqliteDatabase
from edl.brain.store import Store
from edl.brain.tokens import mint
from edl.protocol.brain import Ask, Beginning, Report
from edl.protocol.job_facts import Features, PlanRecord, PodUsage, ResourcePlan, Sample
from edl.protocol.resources import SERVER as SERVERS
from edl.protocol.resources import WORKER, Resource, RolePlan

JOBS = 200  # that report
RATE = 1000  # reports per second that are offered
PODS = {f"worker-{index}": PodUsage(0.5, 500, 1.0, 2048) for index in range(4)} | {
    "ps-0": PodUsage(0.7, 800, 1.0, 2048)
}
UNBOUNDED = Quota(jobs=10**6, mebibytes=10**6)
NEW = Features(program="python train7.py", batch=64, records=1e6)


async def fill(path: Path, count: int) -> None:
    """Past jobs as they are left: features, a few plans, their newest samples, a lesson each."""
    store, rng = Store(SqliteDatabase(str(path)), UNBOUNDED), random.Random(1)
    await store.open()
    for first in range(0, count, 500):
        await asyncio.gather(*(_past(store, number, rng) for number in range(first, min(first + 500, count))))
    await store.close()


async def _past(store: Store, number: int, rng: random.Random) -> None:
    job = f"ns/job{number}/u"
    features = Features(
        program=f"python train{rng.randrange(200)}.py",
        image=f"image:{rng.randrange(50)}",
        namespace="ns",
        records=10 ** rng.uniform(4, 8),
        batch=2.0 ** rng.randrange(4, 11),
        parameters=10 ** rng.uniform(5, 9),
    )
    each = Resource(cpu=2.0, memory=4096)
    roles = {WORKER: RolePlan(rng.randrange(1, 30), each), SERVERS: RolePlan(rng.randrange(1, 5), each)}
    samples = [Sample(30.0 * at, 28.0, 4, 40.0, 1, PODS) for at in range(1, 21)]
    plans = [
        PlanRecord(at, 90.0 * at, ResourcePlan("workers-curve", "it rose", roles), 30.0, 40.0, "paid")
        for at in (1, 2, 3)
    ]
    await store.begin(job, features, float(number))
    await store.report(job, samples, plans, now=float(number))
    peaks = {WORKER: PeakUsage(1.5, 3000), SERVERS: PeakUsage(1.0, 2000)}
    await store.save_summary(JobSummary(job, float(number), features, roles, 100.0, peaks, None, "succeeded"))


class Asker:
    """Calls as trainers make them: each with its job's token, on connections that are kept."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url
        self._tokens: dict[str, str] = {}

    async def __call__(self, job: str, path: str, body: object) -> bytes:
        token = self._tokens.get(job) or self._tokens.setdefault(job, mint(KEY, f"ns/{job}"))
        headers = {"Authorization": f"Bearer {token}"}
        url = f"{self._url}/v1/jobs/ns/{job}/u{path}"
        async with self._session.post(url, data=msgspec.json.encode(body), headers=headers) as answer:
            text = await answer.read()
            assert answer.status == 200, text
            return text

    async def report(self, number: int) -> None:
        sample = Sample(30.0 * (number + 1), 30.0, 4, 40.0, 1, PODS)
        await self(f"r{number % JOBS}", "/reports", Report(samples=(sample,)))


@asynccontextmanager
async def asking(at: Served) -> AsyncIterator[Asker]:
    trusted = ssl.create_default_context(cadata=at.ca)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=64, ssl=trusted)) as session:
        yield Asker(session, at.url)


def speed(count: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asyncio.run(fill(folder / "brain.db", count))
        size = (folder / "brain.db").stat().st_size >> 20
        print(f"\nover HTTPS, the server on one core, {count} past jobs in SQLite ({size} MiB)")
        with served(SERVER, folder) as brain:
            asyncio.run(_plans(brain, 300 if seconds > 3 else 50))
            asyncio.run(_offered(brain, seconds))
            ours = asyncio.run(_as_fast_as_it_goes(brain, seconds))
        with served(EMPTY, folder) as empty:
            bound = asyncio.run(_as_fast_as_it_goes(empty, seconds))
    for what, (rate, each) in (("kept when answered", ours), ("answered without doing anything", bound)):
        print(f"reports, as many as it can, {what}: {rate:.0f}/s, {1e6 * each:.0f} us of the processor each")
    print(f"a report costs {ours[1] / bound[1]:.1f} times an empty call")


def _told(what: str, took: Sequence[float], more: str = "") -> None:
    ordered = sorted(took)
    middle, last = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
    print(f"{what}: median {1e3 * middle:.1f} ms, 99th {1e3 * last:.1f} ms of {len(ordered)}{more}")


async def _start(ask: Asker) -> None:
    await ask("new", "", Beginning(NEW))


async def _next(ask: Asker, number: int) -> None:
    """A report and a question, as a trainer sends them every half minute: the job has 300 samples of seven sizes."""
    plan = ResourcePlan("start-cold", "bench", {WORKER: RolePlan(8, Resource(cpu=1.0)), SERVERS: RolePlan(1)})
    sample = Sample(9_000.0 + 30 * number, 28.0, 8, 75.0, 1, PODS)
    records = (PlanRecord(1, 0.0, plan, 0.0, 20.0, "safety"),)
    await ask("new", "/plan", Ask(present=plan.roles, granted={WORKER: 8}, samples=(sample,), plans=records))


async def _plans(brain: Served, times: int) -> None:
    async with asking(brain) as ask:
        began = time.perf_counter()
        await _start(ask)
        print(f"first plan after the start: {1e3 * (time.perf_counter() - began):.1f} ms")
        samples = tuple(Sample(30.0 * at, 28.0, 2 + at % 7, 10.0 * (2 + at % 7), 1, PODS) for at in range(1, 300))
        await ask("new", "/reports", Report(samples=samples))
        for what in ("start-up plan", "running plan, with its report"):
            took, busy = list[float](), brain.busy()
            for number in range(times):
                began = time.perf_counter()
                await (_start(ask) if what == "start-up plan" else _next(ask, number))
                took.append(time.perf_counter() - began)
            _told(what, took, f", {1e3 * (brain.busy() - busy) / times:.1f} ms of the processor each")


async def _offered(brain: Served, seconds: float) -> None:
    """Reports come when they are due, whether the last ones are answered or not; plans are asked for in between.
    Times are from when a call was due. Connections are there already, as those of trainers are."""
    took: dict[str, list[float]] = {"reports": [], "start-up plans meanwhile": [], "running plans meanwhile": []}
    async with asking(brain) as ask, asyncio.TaskGroup() as calls:
        await asyncio.gather(*(ask(f"r{number}", "", Beginning(NEW)) for number in range(JOBS)))
        await asyncio.gather(*(ask.report(number) for number in range(64)))
        began, busy = time.perf_counter(), brain.busy()

        for number in range(int(RATE * seconds)):
            due = began + number / RATE
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            calls.create_task(_timed(took["reports"], due, ask.report(64 + number)))
            if number % 100 == 50:
                calls.create_task(_timed(took["start-up plans meanwhile"], due, _start(ask)))
            if number % 100 == 0:
                calls.create_task(_timed(took["running plans meanwhile"], due, _next(ask, 1000 + number)))
    passed = time.perf_counter() - began
    used, rate = (brain.busy() - busy) / passed, len(took["reports"]) / passed
    for what, found in took.items():
        more = f", {rate:.0f}/s of {RATE}/s offered, {used:.0%} of the server's core" if what == "reports" else ""
        _told(what, found, more)


async def _timed(took: list[float], due: float, call: Awaitable[None]) -> None:
    await call
    took.append(time.perf_counter() - due)


async def _as_fast_as_it_goes(brain: Served, seconds: float) -> tuple[float, float]:
    """Reports per second from 32 callers, and processor seconds of the server for each."""
    count, until, busy = 0, time.perf_counter() + seconds, brain.busy()
    async with asking(brain) as ask:

        async def caller(number: int) -> None:
            nonlocal count
            while time.perf_counter() < until:
                number += 32
                await ask.report(1_000_000 + number)
                count += 1

        began = time.perf_counter()
        await asyncio.gather(*(caller(number) for number in range(32)))
        return count / (time.perf_counter() - began), (brain.busy() - busy) / count
