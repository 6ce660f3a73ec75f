"""500 pods as processes on one machine, and how quickly a cluster is up. Prints times and ratios; asserts nothing
about time.

The bound for starting pods is what the machine itself needs to fork and end as many shells, one after the other on one
core, measured in the same run. A pod does that and more: it is created, bound, given a file system view of its own,
reported, stopped and deleted through the Kubernetes API.
"""

import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from edl.api.kubernetes.core import Pod
from edl.embedded.cluster import EmbeddedCluster, embedded_cluster
from edl.embedded.node.supervisor import processes
from edl.embedded.resources import PODS
from edl.kube.rest.client import Client

COUNT = int(os.environ.get("EDL_BENCH_PODS", "500"))


def shells(count: int) -> float:
    """Seconds to start and end so many shells without any cluster."""
    begin = time.perf_counter()
    for _ in range(count):
        subprocess.run(["sh", "-c", "exit 0"], check=True)
    return time.perf_counter() - begin


def pod(number: int) -> dict[str, Any]:
    container = {"name": "main", "image": "none", "command": ["sh", "-c", "echo up; sleep 10000"]}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 5}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"pod-{number}"}, "spec": spec}


async def until(client: Client, condition: Callable[[list[Pod]], bool]) -> None:
    while not condition((await client.list(PODS, namespace="default", type=Pod)).items):
        await asyncio.sleep(0.2)


def ready(pods: list[Pod]) -> int:
    found = (one.status.condition("Ready") for one in pods)
    return sum(one is not None and one.status == "True" for one in found)


async def start_all(client: Client) -> float:
    begin = time.perf_counter()
    await asyncio.gather(*(client.create(PODS, pod(number), namespace="default") for number in range(COUNT)))
    await until(client, lambda pods: ready(pods) == COUNT)
    return time.perf_counter() - begin


async def stop_all(client: Client) -> float:
    begin = time.perf_counter()
    await client.delete_collection(PODS, namespace="default")
    await until(client, lambda pods: not pods)
    return time.perf_counter() - begin


def memory_of(cluster: EmbeddedCluster) -> tuple[float, float]:
    """MiB of the cluster's process, and of its supervisor."""
    own, supervisor = psutil.Process(), psutil.Process(cluster.host.runtime.pid)
    return own.memory_info().rss / 2**20, supervisor.memory_info().rss / 2**20


def marked(owner: str) -> int:
    return sum(processes.mark_of(pid).startswith(f"{owner}/") for pid in processes.table())


async def pods_on_one_machine(home: Path, bound: float) -> None:
    async with embedded_cluster(home=home, nodes=2, cpu="1000", memory="1000Gi") as cluster:
        print(f"{COUNT} pods, sandbox {cluster.host.runtime.mode}; {COUNT} bare shells take {bound:.1f} s")
        before = resource.getrusage(resource.RUSAGE_SELF)
        started = await start_all(cluster.client)
        after = resource.getrusage(resource.RUSAGE_SELF)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        own, supervisor = memory_of(cluster)
        running = marked((home / "owner").read_text())
        each = 1000 * cpu / COUNT
        print(f"  all ready after {started:.1f} s ({started / bound:.1f} x the shells), {each:.1f} ms of CPU per pod")
        print(f"  {running} processes; the cluster's own takes {own:.0f} MiB, its supervisor {supervisor:.0f} MiB")
        stopped = await stop_all(cluster.client)
        left = marked((home / "owner").read_text())
        print(f"  all deleted after {stopped:.1f} s ({stopped / bound:.1f} x the shells), {left} processes left")


def up_time(home: Path) -> None:
    """`edl up` to the moment it returns: nodes Ready, kinds served, operator leading. The bound is the bare imports."""
    env = {**os.environ, "EDL_HOME": str(home)}
    edl = [sys.executable, "-m", "edl.cli.main"]
    imports = min(_seconds([sys.executable, "-c", "import edl.embedded.cluster"], env) for _ in range(3))
    times = []
    for _ in range(3):
        times.append(_seconds([*edl, "up", "--nodes", "3", "--gpu", "4"], env))
        subprocess.run([*edl, "down"], env=env, check=True, stdout=subprocess.DEVNULL)
    told = ", ".join(f"{one:.2f}" for one in times)
    print(
        f"edl up, 3 nodes with operator: {told} s; importing alone takes {imports:.2f} s ({min(times) / imports:.1f} x)"
    )


def _seconds(command: list[str], env: dict[str, str]) -> float:
    begin = time.perf_counter()
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(pods_on_one_machine(Path(directory) / "pods", shells(COUNT)))
        up_time(Path(directory) / "up")


if __name__ == "__main__":
    main()
