"""Runs three jobs under `cfs` and under `goodput` on an embedded cluster, and simulates the same with `edl simulate`.

    python -m bench.live [--scale 1.0]

One job scales, two do not. Nothing is told to the scheduler but what the jobs report while they run. A total is the sum
of the completion times of the three. It takes about eight minutes; `--scale 0.5` half as long, with pauses and learning
that weigh twice as much.
"""

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from edl.cli.local.admission import edl_groups, edl_rules
from edl.cli.local.operator import operator
from edl.embedded.cluster import EmbeddedCluster, embedded_cluster
from edl.embedded.server.http.direct import direct_transport
from edl.jobs.registry import JOB_KINDS
from edl.operator.resources import resource_of
from edl.scheduler.settings import Settings

GPUS = 8
PAUSE = 1.0
PATIENCE = 600.0
KIND = next(kind for kind in JOB_KINDS if kind.group == "elastic.pytorch.org")


class CurvedJob(msgspec.Struct, frozen=True):
    """A job of so many steps; `a`, `b` and `c` make its steps per second: n / (a + b n + c n^2)."""

    name: str
    steps: float
    a: float
    b: float
    c: float

    def rate(self, size: int) -> float:
        return size / (self.a + self.b * size + self.c * size * size)

    @property
    def rates(self) -> list[float]:
        return [round(10 * self.rate(size), 3) for size in range(1, GPUS + 1)]


def jobs(scale: float) -> list[CurvedJob]:
    """The first scales; the others wait for each other most of the time, and longer the more they are."""
    return [
        CurvedJob("scales", 8000 * scale, 1.0, 0.0, 0.0),
        CurvedJob("waits-1", 1500 * scale, 0.6, 0.0, 0.4),
        CurvedJob("waits-2", 1500 * scale, 0.6, 0.0, 0.4),
    ]


def manifest(job: CurvedJob, home: Path) -> dict[str, Any]:
    said = {"folder": str(home / "curves" / job.name), "rates": job.rates, "total": job.steps, "pause": PAUSE}
    asked = {"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"nvidia.com/gpu": "1"}}
    container = {
        "name": "worker",
        "image": "none",
        "command": [sys.executable, "-m", "bench.live.worker"],
        "env": [{"name": "CURVE", "value": json.dumps(said)}, {"name": "PYTHONPATH", "value": str(Path.cwd())}],
        "resources": asked,
    }
    worker = {"template": {"spec": {"containers": [container], "terminationGracePeriodSeconds": 2}}}
    return {
        "apiVersion": KIND.api_versions[0],
        "kind": KIND.name,
        "metadata": {"name": job.name, "annotations": {"edl.dev/freezing-window": "3s"}},
        "spec": {"minReplicas": 1, "maxReplicas": GPUS, "replicaSpecs": {"Worker": worker}},
    }


async def live(policy: str, todo: list[CurvedJob]) -> dict[str, float]:
    """Completion times by job."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)

        @asynccontextmanager
        async def service(cluster: EmbeddedCluster) -> AsyncIterator[None]:
            transport = direct_transport(cluster.server.api)
            chosen = Settings(policy=policy)
            async with operator(transport, data=cluster.home.data, scheduler=chosen):
                yield

        async with embedded_cluster(
            home=home,
            cpu="16",
            memory="16Gi",
            gpu=GPUS,
            working_dir=str(home),
            admission=edl_rules,
            pod_groups=edl_groups,
            services=[service],
        ) as cluster:
            return await _completed(cluster, todo, home)


async def _completed(cluster: EmbeddedCluster, todo: list[CurvedJob], home: Path) -> dict[str, float]:
    resource, ended = resource_of(KIND), dict[str, float]()
    begun = time.monotonic()
    sizes: dict[str, list[int]] = {job.name: [] for job in todo}
    for job in todo:
        await cluster.client.create(resource, manifest(job, home), namespace="default")
    async with asyncio.timeout(PATIENCE):
        while len(ended) < len(todo):
            for found in (await cluster.client.list(resource, namespace="default")).items:
                name, status = found["metadata"]["name"], found.get("status") or {}
                current = (status.get("scale") or {}).get("current", 0)
                if current and (not sizes[name] or sizes[name][-1] != current):
                    sizes[name].append(current)
                if status.get("phase") == "Failed":
                    raise SystemExit(f"{name} failed: {status.get('reason')}")
                if status.get("phase") == "Succeeded":
                    ended.setdefault(name, time.monotonic() - begun)
            await asyncio.sleep(0.2)
    for name, seen in sizes.items():
        print(f"    {name:10} {ended[name]:6.1f} s, sizes {' '.join(map(str, seen))}", flush=True)
    return ended


def simulated(todo: list[CurvedJob], policies: list[str]) -> dict[str, float]:
    """Totals by policy, as `edl simulate` prints them."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.csv"
        rows = ["submit_s,name,num_gpus,duration_s,min,max,pause_s,curve"]
        for job in todo:
            curve = " ".join(f"{size}:{rate}" for size, rate in enumerate(job.rates, start=1))
            rows.append(f"0,{job.name},1,{job.steps / job.rates[0]},1,{GPUS},{PAUSE},{curve}")
        trace.write_text("\n".join(rows) + "\n")
        edl = str(Path(sys.executable).with_name("edl"))
        command = [edl, "simulate", "--jobs", str(trace), "--nodes", "1", "--gpu", str(GPUS)]
        command += ["--policy", ",".join(policies), "--declare-work", "-o", "json"]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {one["policy"]: one["avg_jct"] * one["jobs"] for one in json.loads(printed)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="of the work of every job (default 1.0)")
    options = parser.parse_args()
    todo, policies = jobs(options.scale), ["cfs", "goodput"]
    expected = simulated(todo, policies)
    totals: dict[str, float] = {}
    for policy in policies:
        print(f"{policy}, live:", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            totals[policy] = sum(asyncio.run(live(policy, todo)).values())
    print(f"{'policy':10} {'live':>8} {'simulated':>10} {'differ':>7}")
    for policy in policies:
        differ = expected[policy] / totals[policy] - 1
        print(f"{policy:10} {totals[policy]:6.1f} s {expected[policy]:8.1f} s {differ:+7.0%}")
    print(f"goodput ends {1 - totals['goodput'] / totals['cfs']:.0%} sooner in total")
    return 0


if __name__ == "__main__":
    sys.exit(main())
