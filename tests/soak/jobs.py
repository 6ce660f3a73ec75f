"""Jobs of all kinds for a soak: the examples of the repository, and one of plain processes; each ends by itself."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import yaml

from edl.kube.rest.client import Client
from edl.kube.rest.errors import KubeError
from edl.kube.rest.resource import Resource

EXAMPLES = Path(__file__).parents[2] / "examples"
TRAINING = Resource("paddlepaddle.org", "v1", "trainingjobs", "TrainingJob")
EASYDL = Resource("elastic.iml.github.io", "v1alpha1", "elasticjobs", "ElasticJob")
PYTORCH = Resource("elastic.pytorch.org", "v1alpha1", "elasticjobs", "ElasticJob")

Made = tuple[Resource, str]


def _example(path: str, name: str) -> dict[str, Any]:
    body: dict[str, Any] = next(yaml.safe_load_all((EXAMPLES / path).read_text()))
    body["metadata"]["name"] = name
    return body


def _processes(name: str) -> dict[str, Any]:
    command = ["python", "-c", "import time; print('up', flush=True); time.sleep(12)"]
    container = {"name": "main", "image": "x", "command": command, "resources": {"requests": {"cpu": "100m"}}}
    worker = {"replicas": 2, "template": {"spec": {"containers": [container]}}}
    spec = {"minReplicas": 1, "maxReplicas": 3, "replicaSpecs": {"Worker": worker}}
    head = {"apiVersion": PYTORCH.api_version, "kind": PYTORCH.kind, "metadata": {"name": name}}
    return {**head, "spec": spec}


def wave(number: int) -> list[tuple[Resource, dict[str, Any]]]:
    """One job of each kind."""
    return [
        (TRAINING, _example("fit_a_line/job.yaml", f"training-{number}")),
        (EASYDL, _example("easydl/job.yaml", f"easydl-{number}")),
        (PYTORCH, _processes(f"pytorch-{number}")),
    ]


async def submit(client: Client, number: int) -> list[Made]:
    """Patiently: the cluster may be paused, killed or out of disk."""
    made: list[Made] = []
    for resource, body in wave(number):
        name = body["metadata"]["name"]
        while not await _exists(client, resource, name):
            with contextlib.suppress(KubeError, TimeoutError):
                await client.create(resource, body, namespace="default")
            await asyncio.sleep(0.5)
        made.append((resource, name))
    return made


async def _exists(client: Client, resource: Resource, name: str) -> bool:
    try:
        await client.get(resource, name, namespace="default")
    except (KubeError, TimeoutError):
        return False
    return True


async def phases(client: Client, made: list[Made]) -> dict[str, str]:
    """By name; one that cannot be asked now has none."""
    found = {}
    for resource, name in made:
        try:
            job = await client.get(resource, name, namespace="default")
            status = job.get("status") or {}
            found[name] = f"{status.get('phase', '')}".lower()
        except (KubeError, TimeoutError):
            found[name] = ""
    return found
