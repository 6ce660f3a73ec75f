"""Costs of the informer: CPU per watch event and per listed pod, memory per cached pod, time of a large first sync.

The peer, in the same run, is aiohttp + orjson + dict: the fastest thing one would write by hand. Server and client are
processes of their own, each pinned to one core, on loopback; rates are per second of the client's CPU time. Pods have
4.5 KB, and each watch event changes a pod's status, as nearly all do, and is one HTTP chunk, as kube-apiserver sends
them.

    python bench/bench_kube.py [--quick]
"""

import argparse
import asyncio
import gc
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import msgspec
import orjson

from edl.api.kubernetes.core import Pod
from edl.kube.auth.credentials import Auth, ClientConfig, fixed_auth
from edl.kube.cache import memory
from edl.kube.cache.indexes import by_field, by_label, by_namespace, by_owner
from edl.kube.cache.informer import Informer
from edl.kube.rest.client import Client
from edl.kube.rest.rate_limiter import RateLimiter
from edl.kube.rest.resource import Resource
from edl.kube.rest.transport import HttpTransport

PODS = Resource("", "v1", "pods", "Pod")
PAGE = 500
"""Pods per page of a list, for both."""


def pod(number: int, version: int) -> dict[str, Any]:
    """A pod as a training job has them: 4.5 KB with what Kubernetes adds."""
    stamp = f"2030-01-01T{number % 24:02d}:{number % 60:02d}:00Z"
    metadata = _metadata(number, version, stamp)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": _spec(number),
        "status": _status(number, version),
    }


def _metadata(number: int, version: int, stamp: str) -> dict[str, Any]:
    job, index = f"job-{number // 16}", str(number % 16)
    labels = {"app": "trainer", "edl.dev/job": job, "edl.dev/role": "trainer", "edl.dev/index": index}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "controller": True, "blockOwnerDeletion": True}
    return {
        "name": f"{job}-trainer-{index}",
        "namespace": f"team-{number % 40}",
        "uid": f"{number:08x}-0000-4000-8000-{number:012x}",
        "resourceVersion": str(version),
        "creationTimestamp": stamp,
        "labels": labels,
        "annotations": {"edl.dev/epoch": str(number % 7)},
        "ownerReferences": [{**owner, "uid": f"{number // 16:08x}-1111-4000-8000-000000000000"}],
        "managedFields": [_managed(who, number, stamp) for who in ("edl", "kubelet")],
    }


def _spec(number: int) -> dict[str, Any]:
    volumes = ("data", "cache", "kube-api-access-x7k2p")
    tolerated = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    asked = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
    container = {
        "name": "trainer",
        "image": "example/trainer:1.4.2",
        "command": ["sh", "-c", "python train.py"],
        "env": [{"name": f"EDL_SETTING_{n}", "value": f"value-of-job-{number // 16}-{n}"} for n in range(26)],
        "resources": {"requests": asked, "limits": {**asked, "cpu": "8"}},
        "volumeMounts": [{"name": name, "mountPath": f"/mnt/{name}"} for name in volumes],
    }
    return {
        "nodeName": f"node-{number % 1000:04d}.cluster.internal",
        "serviceAccountName": "trainer",
        "restartPolicy": "Never",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
        "priority": 1000,
        "tolerations": [{"key": f"node.kubernetes.io/{what}", **tolerated} for what in ("not-ready", "unreachable")],
        "containers": [container],
        "volumes": [{"name": name, "emptyDir": {}} for name in volumes],
    }


def _status(number: int, version: int) -> dict[str, Any]:
    stamp = f"2030-01-02T{version // 3600 % 24:02d}:{version // 60 % 60:02d}:{version % 60:02d}Z"
    kinds = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    container = {
        "name": "trainer",
        "ready": True,
        "restartCount": version % 10,
        "started": True,
        "image": "example/trainer:1.4.2",
        "imageID": f"example/trainer@sha256:{number:064x}",
        "containerID": f"containerd://{number:064x}",
        "state": {"running": {"startedAt": stamp}},
        "lastState": {},
    }
    return {
        "phase": "Running",
        "hostIP": f"10.0.{number % 250}.{number % 199}",
        "podIP": f"10.{number % 200}.{number % 250}.{number % 99}",
        "startTime": stamp,
        "conditions": [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": stamp} for kind in kinds
        ],
        "containerStatuses": [container],
        "qosClass": "Burstable",
    }


def _managed(manager: str, number: int, stamp: str) -> dict[str, Any]:
    parts = ("metadata", "labels", "spec", "containers", "conditions", "hostIP", "phase")
    fields: dict[str, Any] = {f"f:{part}": {".": {}, "f:name": {}, f"k:{number}": {}} for part in parts}
    entry = {"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    return {**entry, "time": stamp, "fieldsV1": fields}


# The server.


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def serve(pods: int, events: int) -> None:
    bodies = [orjson.dumps(pod(number, number + 1)) for number in range(pods)]
    changes = [
        chunk(b'{"type":"MODIFIED","object":' + orjson.dumps(pod(number % pods, pods + number + 1)) + b"}\n")
        for number in range(events)
    ]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await reader.readuntil(b"\r\n\r\n"):
                target = request.split(b" ", 2)[1].decode()
                if "watch=" in target:
                    await watch(writer)
                else:
                    await page(writer, target)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def page(writer: asyncio.StreamWriter, target: str) -> None:
        start = int(target.partition("continue=")[2].partition("&")[0] or 0)
        end = start + PAGE
        metadata = {"resourceVersion": str(pods), **({"continue": str(end)} if end < pods else {})}
        head = b'{"kind":"PodList","apiVersion":"v1","metadata":' + orjson.dumps(metadata) + b',"items":['
        body = head + b",".join(bodies[start:end]) + b"]}"
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
        await writer.drain()

    async def watch(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        for change in changes:
            writer.write(change)
            await writer.drain()
        await asyncio.sleep(60)

    server = await asyncio.start_server(answer, "127.0.0.1", 0, limit=2**20)
    print(json.dumps({"port": server.sockets[0].getsockname()[1], "bytes": len(bodies[0])}), flush=True)
    await server.serve_forever()


# The clients. Each prints one line of JSON.


def rss() -> float:
    """MB in memory now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


class Meter:
    def __init__(self) -> None:
        gc.collect()
        self.numbers: dict[str, float] = {"rss_before": rss()}
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def lap(self, name: str, count: int) -> None:
        cpu, wall = time.process_time(), time.perf_counter()
        self.numbers[f"{name}_per_cpu_s"] = count / (cpu - self._cpu)
        self.numbers[f"{name}_wall_s"] = wall - self._wall
        gc.collect()
        self.numbers[f"{name}_rss"] = rss()
        self.numbers["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        self._cpu, self._wall = time.process_time(), time.perf_counter()


async def run_informer(url: str, pods: int, events: int) -> dict[str, float]:
    """As the operator uses it: pages, cache, four indexes, one handler that names the owner."""
    memory.tune()
    client = Client(
        HttpTransport(ClientConfig(url, fixed_auth(Auth()))), rate_limiter=RateLimiter(qps=10_000, burst=10_000)
    )
    indexes = {
        "owner": by_owner,
        "job": by_label("edl.dev/job"),
        "node": by_field("spec.node_name"),
        "namespace": by_namespace,
    }
    informer = Informer(client, PODS, Pod, indexes=indexes, page=PAGE)
    keys: set[Any] = set()
    meter = Meter()

    def owners(old: Pod | None, new: Pod | None) -> list[str]:
        item = new or old
        return [owner.uid for owner in item.metadata.owner_references] if item else []

    informer.add_handler("owners", owners, keys.add)
    task = asyncio.create_task(informer.run())
    await informer.wait_synced()
    meter.lap("list", pods)
    memory.freeze()
    if events:
        await informer.wait_seen(str(pods + events))
        meter.lap("watch", events)
    assert len(informer) == pods
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await client.close()
    return meter.numbers


async def run_orjson(url: str, pods: int, events: int) -> dict[str, float]:
    cache: dict[tuple[str, str], Any] = {}

    def take(item: dict[str, Any]) -> None:
        cache[item["metadata"]["namespace"], item["metadata"]["name"]] = item

    async def lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
        rest = b""
        async for data in content.iter_any():
            *whole, rest = (rest + data).split(b"\n")
            for one in whole:
                yield one

    async with aiohttp.ClientSession() as session:
        meter = Meter()
        token = ""
        while True:
            async with session.get(f"{url}/api/v1/pods", params={"limit": PAGE, "continue": token}) as answer:
                page = orjson.loads(await answer.read())
            for item in page["items"]:
                take(item)
            token = page["metadata"].get("continue", "")
            if not token:
                break
        meter.lap("list", pods)
        if events:
            last = str(pods + events)
            async with session.get(f"{url}/api/v1/pods", params={"watch": "true"}, timeout=None) as answer:
                async for one in lines(answer.content):
                    event = orjson.loads(one)
                    take(event["object"])
                    if event["object"]["metadata"]["resourceVersion"] == last:
                        break
                meter.lap("watch", events)
                answer.close()
    assert len(cache) == pods
    return meter.numbers


CLIENTS = {"informer": run_informer, "orjson": run_orjson}


# The run.


def pinned(core: int, *arguments: str) -> "subprocess.Popen[str]":
    cores = sorted(os.sched_getaffinity(0))
    code = f"import os, runpy, sys; os.sched_setaffinity(0, {{{cores[core % len(cores)]}}}); sys.argv = sys.argv[1:]; "
    code += "runpy.run_path(sys.argv[0], run_name='__main__')"
    return subprocess.Popen([sys.executable, "-c", code, __file__, *arguments], stdout=subprocess.PIPE, text=True)


@contextmanager
def server(pods: int, events: int) -> Iterator[tuple[str, int]]:
    process = pinned(1, "--serve", str(pods), str(events))
    try:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        yield f"http://127.0.0.1:{said['port']}", said["bytes"]
    finally:
        process.kill()
        process.wait()


def measure(who: str, url: str, pods: int, events: int) -> dict[str, float]:
    output, _ = pinned(0, "--client", who, url, str(pods), str(events)).communicate()
    numbers: dict[str, float] = json.loads(output)
    return numbers


def compare(pods: int, events: int, rounds: int) -> None:
    with server(pods, events) as (url, size):
        runs = [{who: measure(who, url, pods, events) for who in CLIENTS} for _ in range(rounds)]
    print(f"{pods} pods of {size} bytes, then {events} events; per CPU-second, best of {rounds} interleaved rounds")
    for what, label in (("list_per_cpu_s", "listed pods"), ("watch_per_cpu_s", "watch events")):
        ours, peer = (max(run[who][what] for run in runs) for who in CLIENTS)
        print(f"  {label:13} informer {ours:7,.0f}   aiohttp + orjson + dict {peer:7,.0f}   ratio {ours / peer:.1f}")


def first_sync(pods: int) -> None:
    with server(pods, 0) as (url, _):
        runs = {who: measure(who, url, pods, 0) for who in CLIENTS}
    print(f"first sync of {pods} pods")
    for run in runs.values():
        run["each"] = (run["list_rss"] - run["rss_before"]) * 1e3 / pods
    for what, label in (("list_wall_s", "seconds"), ("each", "KB per pod"), ("peak", "peak MB")):
        ours, peer = (run[what] for run in runs.values())
        print(f"  {label:13} informer {ours:7.2f}   aiohttp + orjson + dict {peer:7.2f}   ratio {peer / ours:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--serve", nargs=2, type=int, help=argparse.SUPPRESS)
    parser.add_argument("--client", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serve(*given.serve))
    elif given.client:
        who, url, pods, events = given.client
        print(json.dumps(asyncio.run(CLIENTS[who](url, int(pods), int(events)))))
    else:
        scale = 10 if given.quick else 1
        print(f"Python {sys.version.split()[0]}, aiohttp {aiohttp.__version__}, msgspec {msgspec.__version__}")
        compare(5_000 // scale, 20_000 // scale, rounds=1 if given.quick else 5)
        first_sync(50_000 // scale)


if __name__ == "__main__":
    main()
