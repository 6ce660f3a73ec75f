"""How long a plan takes with many past jobs, and how many reports one core takes in."""

import asyncio
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import msgspec
import psutil

from edl.brain.advice import Advisor
from edl.brain.messages import Ask, Report
from edl.brain.policy.facts import Features, Plan, PlanRecord, PodUse, Sample
from edl.brain.policy.lessons import Lesson, Peak
from edl.brain.policy.settings import DEFAULTS
from edl.brain.policy.units import SERVER, WORKER, Resource, RolePlan
from edl.brain.sqlite import SqliteDatabase
from edl.brain.store import Store
from edl.brain.tokens import mint

KEY = b"a key for benchmarks"


async def fill(store: Store, count: int) -> None:
    rng = random.Random(1)
    for number in range(count):
        features = Features(
            program=f"python train{rng.randrange(200)}.py",
            image=f"image:{rng.randrange(50)}",
            namespace="ns",
            records=10 ** rng.uniform(4, 8),
            batch=2.0 ** rng.randrange(4, 11),
            parameters=10 ** rng.uniform(5, 9),
        )
        each = Resource(cpu=2.0, memory=4096)
        roles = {WORKER: RolePlan(rng.randrange(1, 30), each), SERVER: RolePlan(rng.randrange(1, 5), each)}
        peaks = {WORKER: Peak(1.5, 3000), SERVER: Peak(1.0, 2000)}
        await store.teach(Lesson(f"ns/job{number}/u", float(number), features, roles, 100.0, peaks, None, "succeeded"))


async def plans(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(SqliteDatabase(f"{folder}/brain.db"))
        await store.open()
        await fill(store, count)
        fresh = Store(SqliteDatabase(f"{folder}/brain.db"))
        await fresh.open()
        advisor, features = Advisor(fresh, DEFAULTS), Features(program="python train7.py", batch=64, records=1e6)
        began = time.perf_counter()
        await advisor.start("ns/new/u", features, None)
        print(f"first plan after a start, with {count} past jobs read from SQLite: {time.perf_counter() - began:.3f} s")
        await _timed("start-up plan", lambda: advisor.start("ns/new/u", features, None), 200)
        await fresh.begin("ns/new/u", features, 0.0)
        plan = Plan("start-cold", "bench", {WORKER: RolePlan(8, Resource(cpu=1.0)), SERVER: RolePlan(1)})
        pods = {f"worker-{index}": PodUse(0.5, 500, 1.0, 2048) for index in range(8)}
        samples = tuple(Sample(30.0 * at, 28.0, 2 + at % 7, 10.0 * (2 + at % 7), 1, pods) for at in range(1, 300))
        await fresh.report("ns/new/u", samples, (PlanRecord(1, 0.0, plan),))
        ask = Ask(present=plan.roles, granted={WORKER: 8})
        await _timed("running plan (300 samples)", lambda: advisor.next("ns/new/u", ask, 9_001.0), 100)
        await store.close()
        await fresh.close()


async def _timed(what: str, call: Callable[[], Awaitable[object]], times: int) -> None:
    """Also the processor's time, which a busy machine does not stretch."""
    took, busy = list[float](), time.process_time()
    for _ in range(times):
        began = time.perf_counter()
        await call()
        took.append(time.perf_counter() - began)
    took.sort()
    each = (time.process_time() - busy) / times
    middle, last = took[len(took) // 2], took[int(len(took) * 0.99)]
    print(f"{what}: median {1e3 * middle:.2f} ms, 99th {1e3 * last:.2f} ms, of the processor {1e3 * each:.2f} ms")


SERVER_PROCESS = """
import asyncio, os, sys
from pathlib import Path
os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0]})
from edl.brain.database import connect
from edl.brain.policy.settings import DEFAULTS
from edl.brain.run import serve
asyncio.run(serve(connect(sys.argv[1]), sys.argv[2].encode(), host="127.0.0.1", port=0, settings=DEFAULTS,
                  ready=lambda url: print(url, flush=True)))
"""
BOUND_PROCESS = """
import asyncio, os
os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0]})
from aiohttp import web
async def nothing(request):
    await request.read()
    return web.Response(body=b"{}")
async def main():
    app = web.Application()
    app.router.add_post("/{rest:.*}", nothing)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


def reports(seconds: float) -> None:
    """One process on one core answers; 32 callers ask. What it took of the processor says what a free core would do."""
    with tempfile.TemporaryDirectory() as folder:
        ours, bound = (_served(script, Path(folder), seconds) for script in (SERVER_PROCESS, BOUND_PROCESS))
    for what, (rate, each) in (("durable when answered", ours), ("answered without doing anything", bound)):
        print(
            f"reports, {what}: {rate:.0f}/s here, {1e6 * each:.0f} us of the processor each, {1 / each:.0f}/s per core"
        )
    print(f"a report costs {ours[1] / bound[1]:.1f} times an empty call")


def _served(script: str, folder: Path, seconds: float) -> tuple[float, float]:
    """Per second, and processor seconds per report."""
    command = [sys.executable, "-c", script, str(folder / "brain.db"), KEY.decode()]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        before = psutil.Process(process.pid).cpu_times()
        rate = asyncio.run(_load(url, seconds))
        after = psutil.Process(process.pid).cpu_times()
        return rate, (after.user + after.system - before.user - before.system) / (rate * seconds)
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


async def _load(url: str, seconds: float) -> float:
    headers = {"Authorization": f"Bearer {mint(KEY, '*')}"}
    pods = {f"worker-{index}": PodUse(0.5, 500, 1.0, 2048) for index in range(4)}
    count, until = 0, time.perf_counter() + seconds

    async def caller(session: aiohttp.ClientSession, number: int) -> None:
        nonlocal count
        at = 0
        while time.perf_counter() < until:
            at += 1
            body = msgspec.json.encode(Report(samples=(Sample(float(at), 30.0, 4, 40.0, 1, pods),)))
            async with session.post(f"{url}/v1/jobs/ns/j{number}/u/reports", data=body, headers=headers) as answer:
                assert answer.status == 200, await answer.text()
            count += 1

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=64)) as session:
        began = time.perf_counter()
        await asyncio.gather(*(caller(session, number) for number in range(32)))
        return count / (time.perf_counter() - began)
