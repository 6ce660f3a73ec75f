"""The Go peer: Kubeflow's training-operator, outside a cluster, with what it wants to find there before it starts.

It makes its own webhook certificate, keeps it in a Secret and expects that Secret mounted; nobody mounts it here, so
it is written where it looks. Its webhook configuration has to exist and is left empty: there is no Service to call.
"""

import asyncio
import base64
import contextlib
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psutil
import yaml
from bench.kube.stage import Stage
from tests.tier_kube.cluster.build import binary, build, sources

from edl.kube.rest.client import Client
from edl.kube.rest.resource import Resource
from edl.operator.resources import CRDS, NAMESPACES, SECRETS

PYTORCH_JOBS = Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob")
WEBHOOKS = Resource(
    "admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False
)
NAMESPACE, SECRET = "kubeflow", "training-operator-webhook-cert"
WEBHOOK = "validator.training-operator.kubeflow.org"
CERTIFICATES = Path("/tmp/k8s-webhook-server/serving-certs")  # fixed in the peer, whatever TMPDIR says
THREADS, QPS, BURST = 8, 500, 1000


def worker_spec(workers: int) -> dict[str, Any]:
    """The same for the peer's kind and for ours, so that both make the same objects."""
    container = {"name": "pytorch", "image": "x", "command": ["true"], "resources": {"requests": {"cpu": "1"}}}
    return {
        "replicas": workers,
        "restartPolicy": "OnFailure",
        "template": {"spec": {"containers": [container]}},
    }


def pytorch_job(name: str, workers: int) -> dict[str, Any]:
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name},
        "spec": {"pytorchReplicaSpecs": {"Worker": worker_spec(workers)}},
    }


@contextlib.asynccontextmanager
async def peer_operator(stage: Stage) -> AsyncIterator[psutil.Process]:
    build("training-operator")
    await _prepare(stage.client)
    command = [
        str(binary("training-operator")),
        f"--kubeconfig={stage.kubeconfig}",
        "--enable-scheme=pytorchjob",
        f"--kube-api-qps={QPS}",
        f"--kube-api-burst={BURST}",
        f"--controller-threads={THREADS}",
        "--metrics-bind-address=0",
        f"--health-probe-bind-address=127.0.0.1:{_free_port()}",
        f"--webhook-server-port={_free_port()}",
        "--zap-log-level=error",
    ]
    with (stage.directory / "peer.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log)
    try:
        await _bring_certificates(stage.client)
        yield psutil.Process(process.pid)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        shutil.rmtree(CERTIFICATES.parent, ignore_errors=True)


async def _prepare(client: Client) -> None:
    crd = sources("training-operator") / "manifests" / "base" / "crds" / "kubeflow.org_pytorchjobs.yaml"
    body = yaml.safe_load(crd.read_text())
    await client.apply(CRDS, body["metadata"]["name"], body)
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}}
    await client.create(SECRETS, secret, namespace=NAMESPACE)
    hook = {"apiVersion": WEBHOOKS.api_version, "kind": WEBHOOKS.kind, "metadata": {"name": WEBHOOK}, "webhooks": []}
    await client.create(WEBHOOKS, hook)


async def _bring_certificates(client: Client) -> None:
    while not (data := (await client.get(SECRETS, SECRET, namespace=NAMESPACE)).get("data")):
        await asyncio.sleep(0.2)
    _write_certificates({name: base64.b64decode(value) for name, value in data.items()})


def _write_certificates(files: dict[str, bytes]) -> None:
    CERTIFICATES.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (CERTIFICATES / name).write_bytes(content)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
