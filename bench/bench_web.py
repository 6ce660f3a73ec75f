"""Costs of the page with 2,000 jobs and 10,000 pods: first paint, CPU and bytes of an update, memory over many changes.

The server is a process of its own on an embedded API server, so that its CPU and memory are its own. First paint is
taken in Chromium where that is installed; without it, the time until all rows are here is printed. The bound beside an
update is what sending the same bytes costs a server that knows nothing.

`--minutes 60` goes on changing jobs for an hour (default: one minute); `python -m bench.web_hour` makes an hour's worth
of changes in minutes, and looks at the browser's memory too.
"""

import argparse
import asyncio
import contextlib
import json
import shutil
import statistics
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from edl.embedded.server import ADMIN, Server
from edl.kube.auth.credentials import Auth, ClientConfig, fixed_auth
from edl.kube.rest.client import Client
from edl.kube.rest.rate_limiter import RateLimiter
from edl.kube.rest.transport import HttpTransport
from edl.operator.crds import register_crds
from edl.operator.resources import NAMESPACES, NODES, PODS, TRAINING_JOBS

JOBS, PODS_EACH, NODE_COUNT, NAMESPACE_COUNT = 2000, 5, 500, 20
TOKEN = "bench"
UPDATES, CHANGED = 20, 50


def client_of(url: str) -> Client:
    account = ClientConfig(url, fixed_auth(Auth({"Authorization": f"Bearer {TOKEN}"})))
    return Client(HttpTransport(account), rate_limiter=RateLimiter(qps=1e6, burst=1_000_000))


def place(number: int) -> tuple[str, str]:
    return f"job-{number:04}", f"team-{number % NAMESPACE_COUNT}"


async def fill(client: Client) -> None:
    await register_crds(client)
    for number in range(NAMESPACE_COUNT):
        await client.create(NAMESPACES, {"metadata": {"name": f"team-{number}"}})
    await gathered(make_node(client, number) for number in range(NODE_COUNT))
    await gathered(make_job(client, number) for number in range(JOBS))


async def gathered(work: Any, at_once: int = 32) -> None:
    turns = asyncio.Semaphore(at_once)

    async def one(coroutine: Any) -> None:
        async with turns:
            await coroutine

    await asyncio.gather(*(one(coroutine) for coroutine in work))


async def make_node(client: Client, number: int) -> None:
    have = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
    await client.create(NODES, {"metadata": {"name": f"node-{number}"}})
    status = {"capacity": have, "allocatable": have, "conditions": [{"type": "Ready", "status": "True"}]}
    await client.patch(NODES, f"node-{number}", {"status": status}, subresource="status")


async def make_job(client: Client, number: int) -> None:
    name, namespace = place(number)
    trainer = {"entrypoint": "train", "min-instance": 1, "max-instance": 8}
    body = {
        "apiVersion": "paddlepaddle.org/v1",
        "kind": "TrainingJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"fault_tolerant": True, "trainer": trainer},
    }
    made = await client.create(TRAINING_JOBS, body, namespace=namespace)
    await change(client, number, 0)
    labels = {"edl.dev/job": name, "edl.dev/kind": "trainingjobs.paddlepaddle.org"}
    labels |= {"edl.dev/job-uid": made["metadata"]["uid"], "edl.dev/role": "trainer"}
    owner = {"apiVersion": body["apiVersion"], "kind": "TrainingJob", "name": name, "uid": made["metadata"]["uid"]}
    for index in range(PODS_EACH):
        asked, most = {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "1"}
        pod = {
            "metadata": {
                "name": f"{name}-trainer-{index}",
                "labels": labels | {"edl.dev/index": str(index)},
                "ownerReferences": [owner | {"controller": True}],
            },
            "spec": {
                "nodeName": f"node-{(number * PODS_EACH + index) % NODE_COUNT}",
                "containers": [
                    {
                        "name": "trainer",
                        "image": "x",
                        "resources": {"requests": asked, "limits": most},
                    }
                ],
            },
        }
        await client.create(PODS, pod, namespace=namespace)


async def change(client: Client, number: int, turn: int) -> None:
    name, namespace = place(number)
    size = 1 + (number + turn) % 8
    scale = {"current": size, "target": size, "code": "Grew", "reason": f"+1: {turn} of 4000 GPUs were free"}
    progress = {"done": turn, "total": 10_000, "shown": f"{turn}", "loss": 4.0 / (1 + turn), "throughput": 500.0}
    status = {"status": {"phase": "running", "scale_status": scale, "progress": progress}}
    await client.patch(TRAINING_JOBS, name, status, namespace=namespace, subresource="status")


async def serve(url: str) -> None:
    """The page's server, until its input ends: `python bench/bench_web.py --serve URL`."""
    from edl.web.access.viewers import LocalDoor
    from edl.web.model.state import ClusterState
    from edl.web.server import WebServer, WebSettings

    client = client_of(url)
    state = ClusterState(client)
    async with state.running():
        begun = time.process_time()
        await state.wait_synced()
        runner = await WebServer(state, LocalDoor(TOKEN, client), WebSettings()).serve("127.0.0.1", 0)
        ready = {"port": runner.addresses[0][1], "cpu": time.process_time() - begun}
        print(json.dumps(ready), flush=True)
        await asyncio.to_thread(sys.stdin.read)
        await runner.cleanup()
    await client.close()


class Page:
    """What a browser would hold: the rows, and how many bytes came."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer
        self.rows = self.received = 0

    async def next(self) -> dict[str, Any]:
        name = ""
        async for raw in self._answer.content:
            self.received += len(raw)
            if raw.startswith(b"event: "):
                name = raw[7:].strip().decode()
            elif raw.startswith(b"data: ") and name == "jobs":
                return dict(json.loads(raw[6:]))
        raise AssertionError("the stream has ended")


@contextlib.asynccontextmanager
async def served(url: str) -> AsyncIterator[tuple[int, float, psutil.Process]]:
    """The page's server in a process of its own: its port, the CPU seconds of its start, and the process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--serve", url, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        limit=1 << 20,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdin is not None
    ready = json.loads(await process.stdout.readline())
    try:
        yield ready["port"], ready["cpu"], psutil.Process(process.pid)
    finally:
        process.stdin.close()
        await process.wait()


async def measure(client: Client, url: str, minutes: float) -> None:
    timeout = aiohttp.ClientTimeout(total=None, sock_read=60)
    async with (
        served(url) as (port, cpu, watched),
        aiohttp.ClientSession(timeout=timeout, read_bufsize=1 << 24) as session,
    ):
        print(f"caches filled and all rows made: {cpu * 1000:.0f} ms of CPU")
        await first_rows(session, port)
        await updates(session, port, client, watched)
        await paint(session, port)
        await long_run(session, port, client, watched, minutes)


async def stream(session: aiohttp.ClientSession, port: int) -> Page:
    where = f"http://127.0.0.1:{port}/api/v1/stream?view=jobs"
    return Page(await session.get(where, headers={"Authorization": f"Bearer {TOKEN}"}))


async def first_rows(session: aiohttp.ClientSession, port: int) -> None:
    took = []
    for _ in range(5):
        begun = time.perf_counter()
        page = await stream(session, port)
        message = await page.next()
        took.append(time.perf_counter() - begun)
        page._answer.close()
    print(
        f"all {len(message['rows'])} rows at a client: {statistics.median(took) * 1000:.0f} ms, {page.received} bytes"
    )


async def updates(session: aiohttp.ClientSession, port: int, client: Client, watched: psutil.Process) -> None:
    page = await stream(session, port)
    await page.next()
    costs, delays, size = [], [], 0
    for turn in range(1, UPDATES + 1):
        before, had, begun = sum(watched.cpu_times()[:2]), page.received, time.perf_counter()
        await asyncio.gather(*(change(client, number, turn) for number in range(CHANGED)))
        seen = 0
        while seen < CHANGED:
            seen += len((await page.next())["rows"])
        delays.append(time.perf_counter() - begun)
        await asyncio.sleep(0.3)
        costs.append(sum(watched.cpu_times()[:2]) - before)
        size = page.received - had
    page._answer.close()
    bound = await bare_cost(size)
    print(
        f"an update of {CHANGED} jobs: {statistics.mean(costs) * 1000:.1f} ms of CPU ({size} bytes; sending them alone"
        f" {bound * 1000:.2f} ms), seen after {statistics.median(delays) * 1000:.0f} ms"
    )


async def bare_cost(size: int) -> float:
    """CPU of writing as many bytes to a socket that somebody reads."""
    done = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await done.wait()
        writer.close()

    async def drain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1 << 16):
            pass
        writer.close()

    server = await asyncio.start_server(drain, "127.0.0.1", 0)
    _, writer = await asyncio.open_connection("127.0.0.1", server.sockets[0].getsockname()[1])
    begun = time.process_time()
    for _ in range(100):
        writer.write(b"x" * size)
        await writer.drain()
    took = (time.process_time() - begun) / 100
    writer.close()
    server.close()
    done.set()
    return took


async def paint(session: aiohttp.ClientSession, port: int) -> None:
    if not shutil.which("chromium") or not shutil.which("chromedriver"):
        print("first paint: Chromium and its driver are not installed here")
        return
    took, memory = [], 0.0
    for _ in range(3):
        painted, shown, memory = await asyncio.to_thread(_paint, await login(session, port))
        took.append((painted, shown))
    first, rows = (statistics.median(one[which] for one in took) for which in (0, 1))
    print(f"in Chromium: first paint {first:.0f} ms, rows {rows:.0f} ms, {memory:.0f} MB of JavaScript heap")


async def login(session: aiohttp.ClientSession, port: int) -> str:
    """An address that logs in once."""
    url, headers = f"http://127.0.0.1:{port}", {"Authorization": f"Bearer {TOKEN}", "EDL-Request": "1"}
    async with session.post(f"{url}/api/v1/codes", headers=headers) as answer:
        return f"{url}/#code={(await answer.json())['code']}"


def _paint(url: str) -> tuple[float, float, float]:
    from tests.tier_web.browser import browser

    with browser() as page:
        page.open(url)
        page.until(lambda: len(page.all(".rows .row")) > 5, "rows are shown")
        painted = page.script("return performance.getEntriesByName('first-contentful-paint')[0]?.startTime || 0")
        shown = page.script("return performance.getEntriesByName('edl-jobs-shown')[0].startTime")
        used = page.script("return performance.memory.usedJSHeapSize") / 1e6
        return float(painted), float(shown), float(used)


async def long_run(
    session: aiohttp.ClientSession, port: int, client: Client, watched: psutil.Process, minutes: float
) -> None:
    """Jobs change all the time, somebody watches: the server's memory must come to rest."""
    page = await stream(session, port)
    reading = asyncio.create_task(_read(page))
    begun, turn, seen = time.monotonic(), UPDATES, []
    while time.monotonic() - begun < minutes * 60:
        turn += 1
        await gathered((change(client, (turn * 40 + number) % JOBS, turn) for number in range(40)), 8)
        seen.append(watched.memory_info().rss / 1e6)
        await asyncio.sleep(0.5)
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    page._answer.close()
    cut = len(seen) // 2
    print(
        f"memory of the server: {seen[0]:.0f} MB, after {minutes:g} min and {len(seen) * 40} changes {seen[-1]:.0f} MB"
        f" (most in the first half {max(seen[:cut] or [0]):.0f}, in the second {max(seen[cut:]):.0f})"
    )


async def _read(page: Page) -> None:
    while True:
        await page.next()


async def main(minutes: float) -> None:
    async with Server(None, tokens={TOKEN: ADMIN}) as server:
        client = client_of(server.url)
        begun = time.monotonic()
        await fill(client)
        print(f"{JOBS} jobs, {JOBS * PODS_EACH} pods, {NODE_COUNT} nodes, made in {time.monotonic() - begun:.0f} s")
        await measure(client, server.url, minutes)
        await client.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long jobs go on changing (%(default)g)")
    options = parser.parse_args()
    asyncio.run(serve(options.serve) if options.serve else main(options.minutes))
