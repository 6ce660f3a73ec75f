"""A cluster is lost with all that it stored: on a new one, jobs of the backup go on from their checkpoints."""

import base64
import contextlib
import io
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from edl.cli.local.admission import edl_rules
from edl.embedded.cluster import embedded_cluster
from edl.kube.rest.client import Client
from edl.kube.rest.resource import Resource
from edl.operator.crds import register_crds
from edl.operator.job_service.configmap_store import CONFIGMAPS
from edl.operator.resources import NAMESPACES, SECRETS, TRAINING_JOBS
from edl.operator.settings import NAMESPACE, SECRET
from edl.runtime.parameters.checkpoint import newest
from edl.runtime.tasks.progress import DoneSet, QueueSnapshot, decode, decode_snapshot
from tests.cli.conftest import Cluster, in_thread, whole

Data = dict[str, Any]
ROOT = Path(__file__).parents[2]
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


async def phase(client: Client, name: str, resource: Resource = PYTORCH) -> str:
    found = await client.get(resource, name, namespace="default")
    return str((found.get("status") or {}).get("phase", "")).lower()


def until(cluster: Cluster, what: str, true: Any) -> None:
    import time

    deadline = time.monotonic() + 120
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


async def apply(client: Client, body: Data) -> None:
    resources = {one.kind: one for one in (NAMESPACES, SECRETS, CONFIGMAPS, PYTORCH, TRAINING_JOBS)}
    metadata = body["metadata"]
    await client.apply(resources[body["kind"]], metadata["name"], body, namespace=metadata.get("namespace"))


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
        for body in kept:
            second.do(apply(second.client, body))
        until(second, "it has ended", lambda: second.do(phase(second.client, "half")) == "succeeded")
    assert len(lines(steps)) == STEPS, "no step was lost or made twice"
    assert lines(starts)[-1] == f"start {STEPS // 2}", "it went on from where it was"


CHUNKS, STEPS_OF_TASK = 12, 2
# A job whose parameters count every update. It stops at the chunk that the file `limit` names.
COUNTING = """
import time
from pathlib import Path
from tests.runtime import counting

def hold(task):
    while task.chunk >= int(Path({limit!r}).read_text()):
        time.sleep(0.02)

counting.hold = hold
counting.main()
"""


class Counting:
    """A TrainingJob with a master, a parameter server and a trainer, on a volume that outlives clusters."""

    def __init__(self, root: Path) -> None:
        self.data, self.ledger, self._limit = root / "data", root / "ledger", root / "limit"
        self.data.mkdir()
        (root / "train.py").write_text(COUNTING.format(limit=str(self._limit)))
        places = f"LEDGER={self.ledger} PYTHONPATH={ROOT}:{ROOT / 'src'}"
        self.entrypoint = f"{places} CHUNKS={CHUNKS} STEPS={STEPS_OF_TASK} {sys.executable} {root / 'train.py'}"

    def until_chunk(self, number: int) -> None:
        draft = self._limit.with_suffix(".draft")
        draft.write_text(str(number))
        draft.rename(self._limit)

    def manifest(self) -> Data:
        spec = {
            "fault_tolerant": True,
            "mountPath": "/data",
            "volumes": [{"name": "data", "hostPath": {"path": str(self.data)}}],
            "master": {},
            "pserver": {"min-instance": 1},
            "trainer": {"entrypoint": self.entrypoint, "min-instance": 1, "max-instance": 1},
        }
        meta = {"name": "count"}
        return {"apiVersion": TRAINING_JOBS.api_version, "kind": "TrainingJob", "metadata": meta, "spec": spec}

    def on_disk(self) -> QueueSnapshot | None:
        """The newest checkpoint that is whole."""
        folders = sorted(self.data.glob(".edl-checkpoints/*"))
        assert len(folders) <= 1, "the restored job goes on in the folder that it had"
        number, queue = newest(folders[0]) if folders else (0, b"")
        return decode_snapshot(queue) if number else None

    def trained(self) -> list[int]:
        noted = [json.loads(line) for line in lines(self.ledger)]
        return [line["chunk"] for line in noted if line["kind"] == "trained"]

    def end(self) -> Data:
        noted = [json.loads(line) for line in lines(self.ledger)]
        (end,) = [line for line in noted if line["kind"] == "end"]
        return dict(end)


def done_in(snapshot: QueueSnapshot | None) -> set[int]:
    return set(DoneSet(CHUNKS, snapshot.done)) if snapshot is not None else set()


def done_in_backup(kept: list[Data]) -> set[int]:
    """Tasks in the newest checkpoint that the backup knows of."""
    for body in kept:
        if body["kind"] == "ConfigMap" and "kv.queue" in body["binaryData"]:
            known = decode(base64.b64decode(body["binaryData"]["kv.queue"])).checkpoints
            return done_in(known[-1] if known else None)
    return set()


@contextlib.asynccontextmanager
async def without_operator(root: Path) -> AsyncIterator[tuple[Client, Path]]:
    """As the new cluster is before `edl install`."""
    async with embedded_cluster(admission=edl_rules, home=root, nodes=1) as cluster:
        await register_crds(cluster.client)
        yield cluster.client, cluster.kubeconfig


def restore(root: Path, kept: list[Data]) -> None:
    with in_thread(lambda: without_operator(root)) as empty:
        for body in kept:
            empty.do(apply(empty.client, body))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("lost", [6, 9], ids=["as-backed-up", "later"])
def test_a_training_job_goes_on_from_its_checkpoint(tmp_path: Path, lost: int) -> None:
    """`lost` is how far it was when the cluster went; the backup knows of six tasks."""
    job = Counting(tmp_path)
    job.until_chunk(6)
    with in_thread(lambda: whole(tmp_path / "first")) as first:
        first.do(first.client.create(TRAINING_JOBS, job.manifest(), namespace="default"))
        until(first, "six tasks are in a checkpoint", lambda: len(done_in(job.on_disk())) == 6)
        until(first, "and in a backup", lambda: len(done_in_backup(backup(first))) == 6)
        kept = backup(first)
        assert [body["kind"] for body in kept] == ["Namespace", "Secret", "ConfigMap", "TrainingJob"]
        assert "ownerReferences" not in kept[2]["metadata"], "its owner will have another uid"
        job.until_chunk(lost)
        until(first, "it went on", lambda: len(done_in(job.on_disk())) == lost)
    saved, before = done_in(job.on_disk()), len(job.trained())

    job.until_chunk(CHUNKS)
    restore(tmp_path / "second", kept)
    with in_thread(lambda: whole(tmp_path / "second")) as second:
        until(second, "it has ended", lambda: second.do(phase(second.client, "count", TRAINING_JOBS)) == "succeeded")
        again = second.do(second.client.get(CONFIGMAPS, "count-tj-state", namespace="default"))
        (job_now,) = second.do(second.client.list(TRAINING_JOBS)).items
        assert again["metadata"]["ownerReferences"][0]["uid"] == job_now["metadata"]["uid"], "its state is its own now"
    assert len(saved) >= lost
    assert sorted(job.trained()[before:]) == sorted(set(range(CHUNKS)) - saved), "none again, and none lost"
    assert job.end()["total"] == [float(CHUNKS * STEPS_OF_TASK)] * 3, "every update counts once"
