"""The contenders: an operator, started in a process of its own, and the job of eight pods that it is given."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import psutil
from bench.kube.peer import PYTORCH_JOBS, peer_operator, pytorch_job, worker_spec
from bench.kube.stage import Stage

from edl.jobs.registry import PYTORCH_JOB
from edl.kube.controllers.lease import LEASES
from edl.kube.rest.errors import ApiError
from edl.kube.rest.resource import Resource
from edl.operator.resources import TRAINING_JOBS, resource_of
from edl.operator.settings import LEASE, NAMESPACE

WORKERS = 8
ELASTIC_JOBS = resource_of(PYTORCH_JOB)
Manifest = dict[str, Any]


@dataclass(frozen=True)
class Contender:
    """`agent` is how the User-Agent of its calls begins, by which the audit log knows it."""

    name: str
    agent: str
    resource: Resource
    job: Callable[[str, int], Manifest]
    operator: Callable[[Stage], AbstractAsyncContextManager[psutil.Process]]


def training_job(name: str, workers: int) -> Manifest:
    trainer = {"entrypoint": "true", "min-instance": workers, "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "paddlepaddle.org/v1",
        "kind": "TrainingJob",
        "metadata": {"name": name},
        "spec": {"image": "x", "fault_tolerant": True, "trainer": trainer},
    }


def elastic_job(name: str, workers: int) -> Manifest:
    """The peer's PyTorchJob in our words: a pod and a Service per worker."""
    return {
        "apiVersion": "elastic.pytorch.org/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": name},
        "spec": {"replicaSpecs": {"Worker": worker_spec(workers)}},
    }


@contextlib.asynccontextmanager
async def edl_operator(stage: Stage) -> AsyncIterator[psutil.Process]:
    """`edl operator` as it ships, job service and all, until it leads."""
    words = ["operator", "--kubeconfig", str(stage.kubeconfig), "--service", "127.0.0.1:0"]
    command = [sys.executable, "-m", "edl.cli.main", *words, "--service-url", "https://127.0.0.1:{port}"]
    with (stage.directory / "edl.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)
    try:
        while not await _leads(stage):
            if process.returncode is not None:
                raise RuntimeError(f"the operator ended: {(stage.directory / 'edl.log').read_text()[-2000:]}")
            await asyncio.sleep(0.2)
        yield psutil.Process(process.pid)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _leads(stage: Stage) -> bool:
    try:
        lease = await stage.client.get(LEASES, LEASE, namespace=NAMESPACE)
    except ApiError:
        return False
    return bool(lease["spec"].get("holderIdentity"))


CONTENDERS = {
    "peer": Contender("Kubeflow PyTorchJob", "training-operator", PYTORCH_JOBS, pytorch_job, peer_operator),
    "pytorch": Contender("edl ElasticJob", "edl", ELASTIC_JOBS, elastic_job, edl_operator),
    "training": Contender("edl TrainingJob", "edl", TRAINING_JOBS, training_job, edl_operator),
}
