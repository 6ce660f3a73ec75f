"""From submission to running: how long, and what it costs the operator in CPU, memory and calls."""

import asyncio
import contextlib
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import msgspec
import psutil
from bench.kube.contenders import WORKERS, Contender
from bench.kube.stage import Stage, calls_since, staged

from edl.api.kubernetes.meta import ObjectMeta
from edl.kube.cache.informer import Informer
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError
from edl.operator.resources import PODS

NODES, NODE = 200, {"cpu": "64", "memory": "256Gi", "nvidia.com/gpu": "8"}
AT_ONCE = 16
REST = 2.0
QUIET, QUIET_FOR = 0.3, 3
"""Cores in use, and for how many seconds no more than these: then nothing is left to be written about the jobs."""


class Phase(msgspec.Struct, frozen=True):
    phase: str = ""


class PodSeen(msgspec.Struct, frozen=True):
    """As much of a pod as tells whether it runs: the observer should cost little."""

    metadata: ObjectMeta
    status: Phase = Phase()


@dataclass(frozen=True)
class Result:
    """Of one contender with one number of jobs. Calls and objects leave Events, leases and watches out.

    `cluster_ms` is what all other parts of the cluster used for a job: where cores are few, that is what jobs wait for.
    `others` is the share of the machine that had nothing to do with the comparison meanwhile.
    """

    contender: str
    jobs: int
    submitted: float
    running: float
    settled: float
    cpu_ms: float
    cluster_ms: float
    others: float
    memory_mb: float
    calls: float
    objects: float
    by_call: Counter[str]


def median(rounds: Sequence[Result]) -> Result:
    """Number by number; the calls are those of the round that was in the middle."""
    middle = sorted(rounds, key=lambda one: one.running)[len(rounds) // 2]
    numbers = [field.name for field in fields(Result) if field.type is float]
    return replace(middle, **{name: statistics.median(getattr(one, name) for one in rounds) for name in numbers})


async def measure(contender: Contender, jobs: int) -> Result:
    with tempfile.TemporaryDirectory() as directory:
        async with (
            staged(Path(directory), nodes=NODES, resources=NODE) as stage,
            contender.operator(stage) as process,
            watching(stage.client) as pods,
        ):
            await warm_up(stage.client, contender)
            return await _race(stage, contender, jobs, process, pods)


@contextlib.asynccontextmanager
async def watching(client: Client) -> AsyncIterator[Informer[PodSeen]]:
    pods: Informer[PodSeen] = Informer(client, PODS, PodSeen)
    task = asyncio.create_task(pods.run())
    try:
        await pods.wait_synced()
        yield pods
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def warm_up(client: Client, contender: Contender) -> None:
    """A job that it has said something about proves that it works; then both it and the cluster come to rest."""
    await _created(client, contender, "first")
    while not (await client.get(contender.resource, "first", namespace="default")).get("status"):
        await asyncio.sleep(0.2)
    await client.delete(contender.resource, "first", namespace="default")
    await asyncio.sleep(REST)


async def _created(client: Client, contender: Contender, name: str) -> None:
    while True:
        try:
            await client.create(contender.resource, contender.job(name, 1), namespace="default")
        except ApiError as error:
            if not error.is_not_found:  # its kind is being registered
                raise
            await asyncio.sleep(0.2)
        else:
            return


async def _race(
    stage: Stage, contender: Contender, jobs: int, process: psutil.Process, pods: Informer[PodSeen]
) -> Result:
    offset, before, started = stage.audit_log.stat().st_size, Used.by(process), time.monotonic()
    await submit(stage.client, contender, jobs)
    submitted = time.monotonic() - started
    while sum(pod.status.phase == "Running" for pod in pods.all()) < jobs * WORKERS:
        await asyncio.sleep(0.1)
    running = time.monotonic() - started
    await _until_quiet(process)
    settled = time.monotonic() - started - QUIET_FOR
    used = Used.by(process).since(before)
    calls = _counted(calls_since(stage.audit_log, offset, contender.agent))
    return Result(
        contender=contender.name,
        jobs=jobs,
        submitted=submitted,
        running=running,
        settled=settled,
        cpu_ms=used.operator * 1000 / jobs,
        cluster_ms=used.cluster * 1000 / jobs,
        others=used.others / ((os.cpu_count() or 1) * (settled + QUIET_FOR)),
        memory_mb=_peak(process),
        calls=calls.total() / jobs,
        objects=sum(count for what, count in calls.items() if what.startswith("create ")) / jobs,
        by_call=calls,
    )


async def _until_quiet(process: psutil.Process) -> None:
    """What is written about the jobs after their last pod runs is part of the cost, however late it is."""
    quiet = 0
    while quiet < QUIET_FOR:
        before = Used.by(process)
        await asyncio.sleep(1.0)
        used = Used.by(process).since(before)
        quiet = quiet + 1 if used.operator + used.cluster <= QUIET else 0


async def submit(client: Client, contender: Contender, jobs: int) -> None:
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> None:
        async with limit:
            await client.create(contender.resource, contender.job(f"j{number}", WORKERS), namespace="default")

    await asyncio.gather(*map(one, range(jobs)))


def _counted(entries: list[dict[str, Any]]) -> Counter[str]:
    """By verb and resource. Reads of collections are counted too: a program that lists again and again pays for it.

    Watches are not: a program has one of each kind, which a busy server ends when it likes.
    """
    counts: Counter[str] = Counter()
    for entry in entries:
        about = entry.get("objectRef", {})
        resource = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
        if about.get("resource") not in ("events", "leases") and entry["verb"] != "watch":
            refused = "" if entry["responseStatus"]["code"] < 400 else f" ({entry['responseStatus']['code']})"
            counts[f"{entry['verb']} {resource}{refused}"] += 1
    return counts


@dataclass(frozen=True)
class Used:
    """CPU seconds, of the operator, of the cluster's own parts (our other children) and of whoever else there is."""

    operator: float
    cluster: float
    others: float

    @classmethod
    def by(cls, operator: psutil.Process) -> "Used":
        ours = psutil.Process()
        cluster = sum(_cpu(child) for child in ours.children() if child.pid != operator.pid)
        machine = psutil.cpu_times()
        busy = machine.user + machine.nice + machine.system + machine.irq + machine.softirq
        return cls(_cpu(operator), cluster, busy - _cpu(operator) - cluster - _cpu(ours))

    def since(self, before: "Used") -> "Used":
        return Used(
            self.operator - before.operator, self.cluster - before.cluster, max(0.0, self.others - before.others)
        )


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _peak(process: psutil.Process) -> float:
    """The most memory that it ever held, in MB."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
