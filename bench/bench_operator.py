"""Costs of the operator: CPU and calls per job from submission to running, CPU and memory at rest, and how soon.

200 jobs of 8 trainers on an embedded API server; kubelets are played by a loop that calls every pod running. The
operator is a process of its own, so that its CPU is its own; the bound printed beside it is what its calls alone cost a
client that does nothing else. Latencies are on an otherwise idle cluster.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil

from edl.api.kubernetes import timestamp
from edl.api.kubernetes.core import Pod
from edl.cli.local.admission import edl_rules
from edl.cli.local.services import operator_with_brain
from edl.embedded.cluster import ClusterSettings, running_cluster
from edl.embedded.server import ADMIN, Server
from edl.kube.auth.credentials import Auth, ClientConfig, fixed_auth
from edl.kube.cache.informer import Informer
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError
from edl.kube.rest.rate_limiter import RateLimiter
from edl.kube.rest.transport import HttpTransport
from edl.operator.job_service.configmap_store import CONFIGMAPS
from edl.operator.resources import NODES, PODS, TRAINING_JOBS

JOBS, TRAINERS, NODE_COUNT = 200, 8, 50
IDLE_SECONDS = 20.0
REPEATS = 5
TOKEN = "bench"


def job(name: str, trainers: int, entrypoint: str = "true", **spec: Any) -> dict[str, Any]:
    trainer = {"entrypoint": entrypoint, "min-instance": trainers, "resources": {"requests": {"cpu": "1"}}}
    trainer |= spec.pop("trainer", {})
    return {
        "apiVersion": "paddlepaddle.org/v1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {"image": "x", "trainer": trainer, **spec},
    }


def client_of(url: str) -> Client:
    account = ClientConfig(url, fixed_auth(Auth({"Authorization": f"Bearer {TOKEN}"})))
    return Client(HttpTransport(account), rate_limiter=RateLimiter(qps=1e6, burst=1_000_000))


class Kubelets:
    """Every pod runs as soon as it is seen, on whichever node is next."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._pods: Informer[Pod] = Informer(client, PODS, Pod)
        self._new: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self.running = 0

    async def run(self) -> None:
        self._pods.add_handler("kubelets", self._seen, self._new.put_nowait)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pods.run())
            for number in range(8):
                group.create_task(self._start_pods(number))

    def _seen(self, old: Pod | None, new: Pod | None) -> list[tuple[str, str]]:
        return [(new.metadata.namespace, new.metadata.name)] if old is None and new is not None else []

    async def _start_pods(self, number: int) -> None:
        while True:
            namespace, name = await self._new.get()
            node = f"n{(self.running + number) % NODE_COUNT}"
            binding = {"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": node}}
            now = timestamp.text(time.time())
            state = {"running": {"startedAt": now}}
            container = {
                "name": "trainer",
                "image": "x",
                "imageID": "",
                "ready": True,
                "restartCount": 0,
                "state": state,
            }
            ready = {"type": "Ready", "status": "True"}
            status = {"phase": "Running", "startTime": now, "conditions": [ready], "containerStatuses": [container]}
            try:
                await self._client.create(PODS, binding, name=name, namespace=namespace, subresource="binding")
                await self._client.patch(PODS, name, {"status": status}, namespace=namespace, subresource="status")
            except ApiError as error:
                if not error.is_not_found:
                    raise
            self.running += 1


async def add_nodes(client: Client) -> None:
    capacity = {"cpu": "64", "memory": "256Gi", "pods": "500"}
    for number in range(NODE_COUNT):
        name = f"n{number}"
        await client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        status = {"capacity": capacity, "allocatable": capacity, "conditions": [{"type": "Ready", "status": "True"}]}
        await client.patch(NODES, name, {"status": status}, subresource="status")
        await client.patch(NODES, name, {"spec": {"taints": None}})


@asynccontextmanager
async def operator(url: str, directory: Path) -> AsyncIterator[psutil.Process]:
    """`edl operator`, in a process of its own."""
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text(
        f"apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n"
        f"clusters: [{{name: c, cluster: {{server: '{url}'}}}}]\nusers: [{{name: u, user: {{token: {TOKEN}}}}}]\n"
    )
    words = ["operator", "--kubeconfig", str(kubeconfig), "--no-service"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "edl.cli.main", *words, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        await process.wait()


async def until_running(client: Client, count: int) -> float:
    started = time.monotonic()
    while True:
        try:
            page = await client.list(TRAINING_JOBS, namespace="default")
        except ApiError:
            page = None
        if page is not None and sum(one.get("status", {}).get("phase") == "running" for one in page.items) >= count:
            return time.monotonic() - started
        await asyncio.sleep(0.25)


BARE = """
import asyncio, sys, time
sys.path.insert(0, {root!r})
from bench.bench_operator import bare_calls
print(asyncio.run(bare_calls({url!r}, {count})))
"""


async def bare_calls(url: str, count: int) -> float:
    """CPU seconds that so many creations cost a client that does nothing else."""
    client = client_of(url)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "bare-"}, "data": {"a": "b" * 2000}}
    started = time.process_time()
    for _ in range(count // 16):
        await asyncio.gather(*(client.create(CONFIGMAPS, body, namespace="default") for _ in range(16)))
    seconds = time.process_time() - started
    await client.close()
    return seconds


async def bound(url: str, count: int) -> float:
    """The same in a process of its own, as the server is in this one."""
    script = BARE.format(root=str(Path(__file__).parents[1]), url=url, count=count)
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE)
    answer, _ = await process.communicate()
    return float(answer)


def spent(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


async def many_jobs() -> None:
    with tempfile.TemporaryDirectory() as directory:
        async with Server(None, tokens={TOKEN: ADMIN}, custom_admission=edl_rules) as server:
            client = client_of(server.url)
            await add_nodes(client)
            kubelets = Kubelets(client)
            playing = asyncio.create_task(kubelets.run())
            async with operator(server.url, Path(directory)) as process:
                await until_running(client, 0)
                await asyncio.sleep(2.0)
                before = spent(process)
                for number in range(JOBS):
                    await client.create(TRAINING_JOBS, job(f"j{number}", TRAINERS), namespace="default")
                took = await until_running(client, JOBS)
                await asyncio.sleep(3.0)
                started = spent(process) - before
                calls = JOBS * (TRAINERS + 2 + 3)  # trainers, a Job, a Service; three changes of status
                least = await bound(server.url, calls)
                print(f"{JOBS} jobs of {TRAINERS} trainers: all running {took:.1f} s after the last was submitted")
                print(f"  operator CPU per job           {started / JOBS * 1000:8.1f} ms", end="")
                print(f", {started / least:.1f} times what {calls // JOBS} bare calls cost")
                await asyncio.sleep(max(0.0, 35.0 - took))  # past the freezing windows
                before, begun = spent(process), time.monotonic()
                await asyncio.sleep(IDLE_SECONDS)
                idle = (spent(process) - before) / (time.monotonic() - begun)
                print(f"  operator CPU at rest           {idle * 100:8.2f} % of a core")
                print(f"  operator memory                {process.memory_info().rss / 2**20:8.0f} MB")
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)
            await client.close()


FOREVER = "trap 'exit 143' TERM; while :; do sleep 0.05; done"


async def latencies() -> None:
    """On real processes: how soon a job runs, and how soon room that is freed is used."""
    with tempfile.TemporaryDirectory() as directory:
        settings = ClusterSettings(
            home=Path(directory), capacity={"cpu": "4", "memory": "8Gi"}, caller=dict(os.environ), admission=edl_rules
        )
        async with running_cluster(settings, services=[operator_with_brain]) as cluster:
            started, used = [], []
            for _ in range(REPEATS):
                one, two = await _latency(cluster.client)
                started.append(one)
                used.append(two)
            print(f"submitted until all minimum pods run:      {_told(started)}")
            print(f"freed until the grown job's new pod runs:  {_told(used)}")


async def _latency(client: Client) -> tuple[float, float]:
    """A job of two comes to an empty cluster; then it goes, and another one grows into its place."""
    begun = time.monotonic()
    await client.create(TRAINING_JOBS, job("first", 2, FOREVER), namespace="default")
    await _until(lambda: _running(client, "first"), 2)
    started = time.monotonic() - begun
    master = {"command": ["sh", "-c", FOREVER]}
    trainer = {"max-instance": 3}
    elastic = job("elastic", 1, FOREVER, master=master, freezing_window="0s", trainer=trainer)
    await client.create(TRAINING_JOBS, elastic, namespace="default")
    await until_running(client, 2)
    begun = time.monotonic()
    await client.delete(TRAINING_JOBS, "first", namespace="default")
    await _until(lambda: _running(client, "elastic"), 2)
    used = time.monotonic() - begun
    await client.delete(TRAINING_JOBS, "elastic", namespace="default")
    await _until(lambda: _running(client, "elastic"), 0)
    return started, used


async def _until(look: Callable[[], Awaitable[list[str]]], count: int) -> None:
    while (found := len(await look())) < count or (count == 0 and found):
        await asyncio.sleep(0.02)


def _told(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.2f} s (median of {len(seconds)}; longest {max(seconds):.2f} s)"


async def _running(client: Client, name: str) -> list[str]:
    labels = {"edl.dev/job": name, "edl.dev/role": "trainer"}
    pods = (await client.list(PODS, namespace="default", labels=labels)).items
    return [pod["metadata"]["name"] for pod in pods if pod.get("status", {}).get("phase") == "Running"]


if __name__ == "__main__":
    asyncio.run(many_jobs())
    asyncio.run(latencies())
