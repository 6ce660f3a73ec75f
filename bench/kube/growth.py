"""Costs for etcd of jobs that use the job service: bytes and writes per task, while fifty of them commit all the time.

Each job finishes tasks at a steady pace and commits its queue, as a master does, as soon as the last commit is durable.
"""

import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.kube.contenders import edl_operator, training_job
from bench.kube.stage import Stage, calls_since, staged

from edl.cli.connect.pod_environment import environment
from edl.jobs.core.pods.environment import CA, TOKEN, URL
from edl.kube.rest.errors import ApiError
from edl.operator.resources import PODS, TRAINING_JOBS
from edl.runtime.service_client import ServiceClient

TASKS_PER_SECOND = 10.0
QUEUE = 2048  # bytes: what a master keeps of a queue of some hundred tasks


@dataclass(frozen=True)
class Growth:
    """`writes` are those of the job service; `bytes` is what etcd's file has grown by."""

    tasks: int
    writes: int
    bytes: int


async def measure_growth(jobs: int, seconds: float) -> Growth:
    with tempfile.TemporaryDirectory() as directory:
        room = {"cpu": "64", "memory": "256Gi"}
        async with staged(Path(directory), nodes=20, resources=room) as stage, edl_operator(stage):
            clients = [await _client(stage, f"j{number}") for number in range(jobs)]
            return await _commit(stage, clients, seconds)


async def _client(stage: Stage, name: str) -> ServiceClient:
    """As a pod of the job would make it, from what the pod was told."""
    job = training_job(name, 1)
    job["spec"]["master"] = {"command": ["true"]}
    await stage.client.create(TRAINING_JOBS, job, namespace="default")
    while True:
        try:
            pod = await stage.client.get(PODS, f"{name}-trainer-0", namespace="default")
            break
        except ApiError:
            await asyncio.sleep(0.2)
    told = await environment(stage.client, pod, "default", secrets=name)
    return ServiceClient(told[URL], "default", name, told[TOKEN], ca=told[CA])


async def _commit(stage: Stage, clients: list[ServiceClient], seconds: float) -> Growth:
    database = stage.cluster.directory / "etcd" / "member" / "snap" / "db"
    before, offset = database.stat().st_size, stage.audit_log.stat().st_size
    until = time.monotonic() + seconds
    tasks = await asyncio.gather(*(asyncio.to_thread(_work, client, until) for client in clients))
    calls = calls_since(stage.audit_log, offset, "edl")
    writes = [call for call in calls if call["objectRef"]["resource"] == "configmaps" and call["verb"] != "get"]
    return Growth(sum(tasks), len(writes), database.stat().st_size - before)


def _work(client: ServiceClient, until: float) -> int:
    """How many tasks were committed."""
    slot = client.claim("master", 0, "bench")
    version, began, done = 0, time.monotonic(), 0
    while time.monotonic() < until:
        done = int((time.monotonic() - began) * TASKS_PER_SECOND)
        queue = f"{done:08d}".encode() * (QUEUE // 8)
        version = client.put("queue", queue, version=version, slot=slot)
    client.close()
    return done
