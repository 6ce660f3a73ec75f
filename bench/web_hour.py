"""An hour's worth of changes with 2,000 jobs and 10,000 pods: is the memory of the page and of its server bounded?

Every job tells of its progress twice a minute, which is 240,000 changes in an hour, and 600 jobs end and are followed
by others. They are made as fast as the API server takes them. An hour's worth fills the curves that the server keeps
(200,000 points); half an hour more shows whether anything goes on growing. Memory is measured twelve times, that of the
page after garbage was collected; between two measurements the page visits its other views.

What only real time fills is not in it: samples of the cluster, 720 at most, of which an hour makes all.
`python bench/bench_web.py --minutes 60` runs by the clock. `--changes N` makes fewer.
"""

import argparse
import asyncio
import shutil
import time
from collections.abc import Callable
from typing import Any

import aiohttp
import psutil
from bench.bench_web import (
    JOBS,
    PODS_EACH,
    TOKEN,
    Page,
    change,
    client_of,
    fill,
    gathered,
    login,
    make_job,
    place,
    served,
    stream,
)

from edl.embedded.server import ADMIN, Server
from edl.kube.rest.client import Client
from edl.operator.resources import PODS, TRAINING_JOBS

HOUR = JOBS * 2 * 60
MADE = HOUR * 3 // 2
TIMES, TURN = 12, 80
REPLACED = 600
ALLOWED = 1.05
"""The least of the last quarter may be so many times the least of the one before it: what is kept for good is in both,
and what waits to be collected comes and goes."""
KIND = "trainingjobs.paddlepaddle.org"
VIEWS = ("#/cluster", f"#/job/{KIND}/{place(0)[1]}/{place(0)[0]}", "#/what-if", "#/jobs")


class Driver:
    """Makes the changes. Jobs that end make room for new ones, with names of their own."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._numbers = list(range(JOBS))
        self._next = JOBS
        self._made = self._turn = 0

    async def change(self, count: int, replaced: int) -> None:
        every = max(1, count // max(1, replaced))
        for begin in range(0, count, TURN):
            self._turn += 1
            size = min(TURN, count - begin)
            picked = [self._numbers[(self._made + index) % JOBS] for index in range(size)]
            await gathered((change(self._client, number, self._turn) for number in picked), 16)
            self._made += size
            for _ in range(begin // every, (begin + size) // every):
                await self._replace(1 + self._next % (JOBS - 1))

    async def _replace(self, at: int) -> None:
        name, namespace = place(self._numbers[at])
        pods = (f"{name}-trainer-{index}" for index in range(PODS_EACH))
        # At once: there is no node that would end them, and pods that never go are no server's fault.
        await gathered(self._client.delete(PODS, pod, namespace=namespace, grace=0) for pod in pods)
        await self._client.delete(TRAINING_JOBS, name, namespace=namespace)
        self._numbers[at], self._next = self._next, self._next + 1
        await make_job(self._client, self._numbers[at])


class Watched:
    """A page in Chromium, and what it holds."""

    def __init__(self, page: Any) -> None:
        self._page = page

    def begin(self, address: str) -> None:
        self._page.driver.execute_cdp_cmd("Performance.enable", {})
        self._page.open(address)
        self._page.until_text("jobs", "#total")

    def visit(self) -> None:
        for view in VIEWS:
            self._page.go(view)
            self._page.until(lambda: "Loading" not in self._page.text("main"), view)
            time.sleep(2.0)
        self._page.asked()  # else the driver keeps them all

    def held(self) -> tuple[float, int, int]:
        """Megabytes of JavaScript, nodes of the document, listeners; garbage does not count."""
        for _ in range(3):  # what one collection sets free may hold more
            self._page.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
        metrics = self._page.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
        found = {one["name"]: one["value"] for one in metrics}
        return found["JSHeapUsedSize"] / 1e6, int(found["Nodes"]), int(found["JSEventListeners"])


async def measure(client: Client, url: str, changes: int, page: Watched | None) -> None:
    timeout = aiohttp.ClientTimeout(total=None, sock_read=120)
    async with (
        served(url) as (port, _, process),
        aiohttp.ClientSession(timeout=timeout, read_bufsize=1 << 24) as session,
    ):
        reading = asyncio.create_task(_read(await stream(session, port)))
        if page is not None:
            await asyncio.to_thread(page.begin, await login(session, port))
        rows = await _rounds(Driver(client), changes, process, page)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    _verdict("server", [row[0] for row in rows])
    if page is not None:
        _verdict("page, JavaScript", [row[1] for row in rows])
        _verdict("page, document", [row[2] for row in rows])


async def _rounds(
    driver: Driver, changes: int, process: psutil.Process, page: Watched | None
) -> list[tuple[float, float, int]]:
    begun, rows = time.monotonic(), []
    print(f"{'changes':>9} {'seconds':>8} {'server MB':>10} {'heap MB':>8} {'nodes':>7} {'listeners':>10}")
    for number in range(1, TIMES + 1):
        await driver.change(changes // TIMES, REPLACED * changes // HOUR // TIMES)
        heap, nodes, listeners = 0.0, 0, 0
        if page is not None:
            await asyncio.to_thread(page.visit)
            heap, nodes, listeners = await asyncio.to_thread(page.held)
        server = process.memory_info().rss / 1e6
        rows.append((server, heap, nodes))
        seconds = time.monotonic() - begun
        made = number * (changes // TIMES)
        print(f"{made:9} {seconds:8.0f} {server:10.0f} {heap:8.1f} {nodes:7} {listeners:10}", flush=True)
    return rows


def _verdict(what: str, values: list[float]) -> None:
    quarter = TIMES // 4
    last, before = min(values[-quarter:]), min(values[-2 * quarter : -quarter])
    words = "bounded" if last <= before * ALLOWED else "GROWS"
    print(f"{what}: {words} (least in the last quarter {last:.1f}, in the one before it {before:.1f})")


async def _read(page: Page) -> None:
    while True:
        await page.next()


async def main(changes: int, page: Watched | None) -> None:
    async with Server(None, tokens={TOKEN: ADMIN}) as server:
        client = client_of(server.url)
        await fill(client)
        print(f"{JOBS} jobs, {JOBS * PODS_EACH} pods; {changes} changes, {changes / HOUR:.0%} of an hour's")
        await measure(client, server.url, changes, page)
        await client.close()


def with_browser(run: Callable[[Watched | None], None]) -> None:
    if not shutil.which("chromium") or not shutil.which("chromedriver"):
        print("Chromium and its driver are not installed here: the server alone is measured")
        return run(None)
    from tests.tier_web.browser import browser

    with browser() as page:
        return run(Watched(page))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=MADE, help="how many to make (default: %(default)s, 1.5 hours')")
    chosen = parser.parse_args()
    with_browser(lambda page: asyncio.run(main(chosen.changes, page)))
