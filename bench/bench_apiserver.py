"""Costs of the embedded API server: writes, watch fan-out and lists per second of its CPU time, and its memory.

The bound, in the same run, is the least that any server of this build could do: aiohttp, one JSON decode and encode,
one row per request in the same SQLite file by the same group commit, and nothing of Kubernetes. Server and client are
processes of their own on loopback over plain HTTP, 32 connections wide; rates are per second of the server's CPU time.

    python bench/bench_apiserver.py [--quick]
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import psutil
from aiohttp import web

from edl.embedded.server import ADMIN, Server
from edl.embedded.server.storage.store import Store

CONNECTIONS = 32
WATCHERS = 50
HEAD = (
    "{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\nUser-Agent: bench/1\r\nContent-Type: "
    "{media}\r\nContent-Length: {length}\r\n\r\n"
)
MAPS, PODS = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/pods"


# -- the two servers
# ----------------------------------------------------------------------------------------------------


async def serve_edl(directory: Path) -> None:
    async with Server(directory / "store.db", tokens={"t": ADMIN}) as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()


async def serve_bound(directory: Path) -> None:
    """No routes, no rules: decode, number, encode, store, answer."""
    store = Store(directory / "store.db")

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        obj = msgspec.json.decode(await request.read())
        obj["metadata"]["resourceVersion"] = str(store.next_rv)
        body = msgspec.json.encode(obj)
        store.put("/things", ("default", obj["metadata"].get("name", "x")), body)
        await store.committed()
        return web.Response(status=201, body=body, content_type="application/json")

    runner = web.ServerRunner(web.Server(handle), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


@dataclass(frozen=True)
class Running:
    port: int
    process: psutil.Process

    @property
    def cpu(self) -> float:
        times = self.process.cpu_times()
        return float(times.user + times.system)


@contextmanager
def running(kind: str) -> Iterator[Running]:
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, __file__, "--serve", kind, directory]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        try:
            port = int(child.stdout.readline().rpartition(":")[2])
            yield Running(port, psutil.Process(child.pid))
        finally:
            child.kill()
            child.wait()
            child.stdout.close()


# -- load
# ---------------------------------------------------------------------------------------------------------------


def request(method: str, path: str, body: Any, media: str = "application/json") -> bytes:
    data = json.dumps(body).encode()
    return HEAD.format(method=method, path=path, media=media, length=len(data)).encode() + data


async def drive(port: int, requests: Iterable[bytes]) -> None:
    """Send every request, each connection one at a time, and check that each was accepted."""
    queue = iter(requests)

    async def connection() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
        for one in queue:
            writer.write(one)
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201")):
                raise RuntimeError((head + await reader.read(2000)).decode())
            await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))
        writer.close()

    await asyncio.gather(*(connection() for _ in range(CONNECTIONS)))


@asynccontextmanager
async def watching(port: int, count: int) -> AsyncIterator[Callable[[int], Any]]:
    """`count` watchers of ConfigMaps; the result waits until they have all seen so many events in all."""
    seen = 0
    enough = asyncio.Event()
    target = 0

    async def watch() -> None:
        nonlocal seen
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
        writer.write(
            f"GET {MAPS}?watch=true&labelSelector=bench HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\n\r\n".encode()
        )
        await reader.readuntil(b"\r\n\r\n")
        started.release()
        while chunk := await reader.read(1 << 20):
            seen += chunk.count(b'{"type":"')
            if target and seen >= target:
                enough.set()

    started = asyncio.Semaphore(0)
    tasks = [asyncio.create_task(watch()) for _ in range(count)]
    for _ in tasks:
        await started.acquire()

    async def wait(events: int) -> None:
        nonlocal target
        target = events
        if seen < target:
            await asyncio.wait_for(enough.wait(), 60)

    yield wait
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def config(number: int) -> dict[str, Any]:
    return {"metadata": {"name": f"m{number}", "labels": {"bench": "x"}}, "data": {"a": "1", "b": "2"}}


def pod(number: int) -> dict[str, Any]:
    """A worker of a training job, as our operator writes them."""
    env = [{"name": f"EDL_SETTING_{n}", "value": f"value-{n}"} for n in range(10)]
    resources = {
        "requests": {"cpu": "4", "memory": "16Gi"},
        "limits": {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "1"},
    }
    worker = {"name": "worker", "image": "edl:1", "command": ["python", "train.py"], "env": env, "resources": resources}
    labels = {"edl.dev/job": f"j{number // 16}", "edl.dev/role": "worker", "edl.dev/index": str(number % 16)}
    owner = {"apiVersion": "v1", "kind": "ElasticJob", "name": "j", "uid": f"{number // 16}", "controller": True}
    meta = {"name": f"w{number}", "labels": labels, "ownerReferences": [owner]}
    return {"metadata": meta, "spec": {"containers": [worker], "restartPolicy": "Never"}}


def running_status(number: int) -> dict[str, Any]:
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    conditions = [
        {"type": kind, "status": "True"} for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    containers = [{"name": "worker", "ready": True, "restartCount": number % 3, "state": state, "image": "edl:1"}]
    return {
        "status": {"phase": "Running", "podIP": "127.0.0.9", "conditions": conditions, "containerStatuses": containers}
    }


# -- the cases
# ----------------------------------------------------------------------------------------------------------


async def rate(server: Running, count: int, requests: Iterable[bytes]) -> float:
    before = server.cpu
    await drive(server.port, requests)
    return count / (server.cpu - before)


async def writes(count: int) -> None:
    strategic = "application/strategic-merge-patch+json"
    cases: dict[str, Callable[[int], bytes]] = {
        "create ConfigMap (0.1 KB)": lambda n: request("POST", MAPS, config(n)),
        "create Pod (1 KB)": lambda n: request("POST", PODS, pod(n)),
        "patch Pod status (0.5 KB)": lambda n: request("PATCH", f"{PODS}/w{n}/status", running_status(n), strategic),
    }
    with running("edl") as ours, running("bound") as bound:
        for name, make in cases.items():
            body = config if "ConfigMap" in name else pod
            floor = await rate(bound, count, [request("POST", "/", body(n)) for n in range(count)])
            mine = await rate(ours, count, [make(n) for n in range(count)])
            print(f"{name:28} {mine:8,.0f} /CPU s   bound {floor:8,.0f}   ratio {mine / floor:.2f}")


async def fan_out(count: int) -> None:
    with running("edl") as server:
        alone = await cost(server, count, 0)
        with_watchers = await cost(server, count, WATCHERS)
    events = count * WATCHERS
    print(
        f"watch, {WATCHERS} watchers          {events / with_watchers:8,.0f} events/CPU s; a write costs "
        f"{with_watchers / alone:.1f} times one without watchers"
    )


async def cost(server: Running, count: int, watchers: int) -> float:
    offset = watchers * 1_000_000
    async with watching(server.port, watchers) as wait:
        requests = [request("POST", MAPS, config(offset + n)) for n in range(count)]
        before = server.cpu
        await drive(server.port, requests)
        await wait(count * watchers)
        return server.cpu - before


async def memory(count: int) -> None:
    with running("edl") as server:
        empty = server.process.memory_info().rss
        await drive(server.port, [request("POST", PODS, pod(n)) for n in range(count)])
        full = server.process.memory_info().rss
        before = server.cpu
        await drive(server.port, [f"GET {PODS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\n\r\n".encode()] * 5)
        lists = 5 * count / (server.cpu - before)
    print(
        f"memory with {count:,} pods       {full / 2**20:6.0f} MiB, {(full - empty) / count / 1024:.1f} KiB a pod; "
        f"empty {empty / 2**20:.0f} MiB"
    )
    print(f"list of {count:,} pods           {lists:8,.0f} pods/CPU s")


async def main(quick: bool) -> None:
    scale = 10 if quick else 1
    await writes(6000 // scale)
    await fan_out(1000 // scale)
    await memory(5000 // scale)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--serve", nargs=2, metavar=("KIND", "DIRECTORY"))
    given = parser.parse_args()
    if given.serve:
        asyncio.run({"edl": serve_edl, "bound": serve_bound}[given.serve[0]](Path(given.serve[1])))
    else:
        asyncio.run(main(given.quick))
