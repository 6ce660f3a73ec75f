"""A cluster is lost with all that it stored: on a new one, jobs of the backup go on from their checkpoints."""

import contextlib
import io
from pathlib import Path
from typing import Any

import yaml

from edl.kube.rest.client import Client
from edl.kube.rest.resource import Resource
from edl.operator.resources import NAMESPACES, SECRETS
from edl.operator.settings import NAMESPACE, SECRET
from tests.cli.conftest import Cluster, in_thread, whole

Data = dict[str, Any]
PYTORCH = Resource("elastic.pytorch.org", "v1alpha1", "elasticjobs", "ElasticJob")
STEPS = 12
# A step is a line; a start says from where. It waits at half until it is told that the new cluster is there.
SCRIPT = """
cd {directory}
echo start $(cat steps 2>/dev/null | wc -l) >> starts
while [ $(cat steps 2>/dev/null | wc -l) -lt {steps} ]; do
  if [ $(cat steps 2>/dev/null | wc -l) -ge {half} ] && [ ! -e restored ]; then sleep 0.05; continue; fi
  echo step >> steps
done
"""


def job(name: str, directory: Path) -> Data:
    script = SCRIPT.format(directory=directory, steps=STEPS, half=STEPS // 2)
    container = {"name": "main", "image": "any", "command": ["sh", "-c", script]}
    worker = {"replicas": 1, "template": {"spec": {"containers": [container]}}}
    spec = {"minReplicas": 1, "maxReplicas": 1, "replicaSpecs": {"Worker": worker}}
    return {"apiVersion": PYTORCH.api_version, "kind": PYTORCH.kind, "metadata": {"name": name}, "spec": spec}


async def phase(client: Client, name: str) -> str:
    found = await client.get(PYTORCH, name, namespace="default")
    return str((found.get("status") or {}).get("phase", "")).lower()


def until(cluster: Cluster, what: str, true: Any) -> None:
    import time

    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, f"never came true: {what}"
        cluster.do(_pause())


async def _pause() -> None:
    import asyncio

    await asyncio.sleep(0.05)


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def backup(cluster: Cluster) -> list[Data]:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        assert cluster.edl("backup") == 0
    return list(yaml.safe_load_all(output.getvalue()))


def test_jobs_of_a_lost_cluster_go_on_from_their_checkpoints(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    steps, starts = tmp_path / "data" / "steps", tmp_path / "data" / "starts"
    with in_thread(lambda: whole(tmp_path / "first")) as first:
        done = job("done", tmp_path / "data")
        done["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["command"] = ["true"]
        for body in (job("half", tmp_path / "data"), done):
            first.do(first.client.create(PYTORCH, body, namespace="default"))
        until(first, "it is half way", lambda: len(lines(steps)) == STEPS // 2)
        until(first, "the other has ended", lambda: first.do(phase(first.client, "done")) == "succeeded")
        kept = backup(first)
    assert [(one["kind"], one["metadata"]["name"]) for one in kept] == [
        ("Namespace", NAMESPACE),
        ("Secret", SECRET),
        ("ElasticJob", "half"),
    ], "what has ended would begin anew"

    (tmp_path / "data" / "restored").touch()
    with in_thread(lambda: whole(tmp_path / "second")) as second:
        resources = {"Namespace": NAMESPACES, "Secret": SECRETS, "ElasticJob": PYTORCH}
        for body in kept:
            metadata = body["metadata"]
            applied = second.client.apply(
                resources[body["kind"]], metadata["name"], body, namespace=metadata.get("namespace")
            )
            second.do(applied)
        until(second, "it has ended", lambda: second.do(phase(second.client, "half")) == "succeeded")
    assert len(lines(steps)) == STEPS, "no step was lost or made twice"
    assert lines(starts)[-1] == f"start {STEPS // 2}", "it went on from where it was"
