"""Brain as `edl install` puts it on real nodes: it answers, and what it has learned outlives its pod."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edl.operator.settings import BRAIN, BRAIN_PORT, NAMESPACE
from tests.tier_kube.cluster.kubectl import Kubectl, eventually, existing_kubeconfig
from tests.tier_kube.installed import edl

pytestmark = [pytest.mark.kube, pytest.mark.timeout(240), pytest.mark.xdist_group("cluster")]
DEFAULT = "storageclass.kubernetes.io/is-default-class"
WAITS = {
    "apiVersion": "paddlepaddle.org/v1",
    "kind": "TrainingJob",
    "metadata": {"name": "kept"},
    "spec": {
        "image": "none",
        "fault_tolerant": True,
        "trainer": {"entrypoint": "true", "min-instance": 1, "resources": {"requests": {"cpu": "9999"}}},
    },
}
"""A job for which there is no room."""
SERVICE = f"https://{BRAIN}.{NAMESPACE}.svc:{BRAIN_PORT}"
BEGIN = """
import os
from pathlib import Path
from edl.brain.client import BrainClient
from edl.brain.keys import key_at
from edl.protocol.brain import Beginning
from edl.protocol.job_facts import Features
from edl.brain.tokens import mint
token = mint(key_at(Path(os.environ["EDL_BRAIN_KEY"])), "default/ctr")
client = BrainClient(os.environ["EDL_BRAIN_URL"], token, ca=os.environ["EDL_BRAIN_CA"])
client.begin("default/ctr/u", Beginning(Features()))
"""

WRITES = """
import os
from edl.runtime.environment import Environment
from edl.runtime.logs.feed import LogFeed
feed = LogFeed.start(Environment.read(os.environ), lambda: True, every=0.2)
feed.add(1, b"a line of a pod\\n")
feed.close(60)
assert feed.wanted and not feed._chunk, "the Brain has it"
"""
"""Hands a line to Brain as torchrun's agent does."""


def _storage_classes(kubectl: Kubectl) -> list[Any]:
    found: list[Any] = kubectl.get("storageclasses")["items"]
    return found


@pytest.fixture
def brain(installed: Kubectl, tmp_path: Path) -> Iterator[Kubectl]:
    """kubectl in Brain's namespace. Our own cluster has no class of storage, so a volume is made by hand."""
    inside, name = installed.within(NAMESPACE), f"edl-test-{os.getpid()}"
    if existing_kubeconfig() is not None:
        if not any(DEFAULT in item["metadata"].get("annotations", {}) for item in _storage_classes(installed)):
            pytest.skip("the cluster has no default StorageClass for Brain's claim")
    else:
        tmp_path.chmod(0o777)
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": NAMESPACE, "name": BRAIN},
            "hostPath": {"path": str(tmp_path)},
        }
        installed.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec})
    yield inside
    if existing_kubeconfig() is None:
        installed("delete", "pv", name, "--wait=false")


@pytest.mark.may_skip("a cluster of the user's may have no default StorageClass")
def test_it_answers_and_remembers(brain: Kubectl, namespace: Kubectl, image: str, tmp_path: Path) -> None:
    def inside(*words: str, stdin: str = "") -> str:
        return brain("exec", "-i", f"deploy/{BRAIN}", "--", *words, stdin=stdin)

    brain("rollout", "status", f"deployment/{BRAIN}", "--timeout=90s", timeout=100)
    plan = json.loads(inside("edl", "brain", "plan", "--url", SERVICE, "-f", "-", stdin='{"program": "python ctr.py"}'))
    assert (plan["rule"], plan["roles"]["worker"]["replicas"]) == ("start-cold", 2)
    inside("python", "-c", BEGIN)
    inside("python", "-c", "import asyncpg")  # for those who keep the history in PostgreSQL
    namespace.apply(WAITS)

    def history() -> str:
        return next((line for line in inside("edl", "history").splitlines() if "/kept " in line), "")

    assert "creating" in eventually(history, within=60, what="operators tell of the job")
    namespace("delete", "trainingjob", "kept")
    eventually(lambda: "deleted" in history(), within=60, what="operators tell of its end")

    logs = ("edl", "brain", "logs", f"{namespace.namespace}/{_write_log(namespace, image, tmp_path)}")
    assert inside(*logs) == "a line of a pod", "of a job that is gone"

    (before,) = brain.get("pods", labels=f"app.kubernetes.io/name={BRAIN}")["items"]
    brain("delete", "pod", before["metadata"]["name"])
    brain("rollout", "status", f"deployment/{BRAIN}", "--timeout=90s", timeout=100)
    assert "deleted" in eventually(history, within=30, what="the new pod answers")
    assert inside(*logs) == "a line of a pod"
    assert "default/ctr" in eventually(lambda: inside("edl", "brain", "jobs"), within=30, what="the new pod answers")


def write_log(namespace: Kubectl, image: str, folder: Path) -> str:
    """The name of a job that wrote a line to Brain, and has ended."""
    script = folder / "project" / "writes.py"
    script.parent.mkdir()
    script.write_text(WRITES)
    where = ("--kubeconfig", str(namespace.kubeconfig), "-n", namespace.namespace)
    edl("run", str(script), *where, "--image", image, "--cpu", "50m", "--plain")
    return "writes"


def _write_log(namespace: Kubectl, image: str, folder: Path) -> str:
    """The name of such a job that is gone, with its pod."""
    name = write_log(namespace, image, folder)
    edl("delete", name, "--kubeconfig", str(namespace.kubeconfig), "-n", namespace.namespace)
    eventually(lambda: namespace.find("pods", "writes-worker-0") is None, within=60, what="its pod is gone")
    return name
