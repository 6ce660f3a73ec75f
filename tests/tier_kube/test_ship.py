"""Code and runtime reach images that hold neither: `edl run` on a real cluster, in a plain image with Python."""

import asyncio
import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from edl.cli.commands.jobs.script_job import create_script_job
from edl.cli.connect.cluster import connected
from edl.cli.input.code import pack
from tests.tier_kube.cluster.cluster import Cluster
from tests.tier_kube.cluster.kubectl import Kubectl, Manifest, eventually
from tests.tier_kube.cluster.python_image import PYTHON_IMAGE, SITE_PACKAGES, python_image, torch_directory
from tests.tier_kube.image import REPOSITORY
from tests.tier_kube.installed import edl

pytestmark = [pytest.mark.kube, pytest.mark.timeout(300)]
SMALL = ("--cpu", "50m", "--image", PYTHON_IMAGE)
RESTRICTED: Manifest = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "runAsUser": 4321,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
SCRIPT = """
import json, os, sys
from importlib.metadata import entry_points
from types import SimpleNamespace

import edl
from edl.progress import Progress
from edl.runtime.torch.plugin import Settings, connect
from lib.net import LAYERS

[handler] = entry_points(group="torchrun.handlers", name="edl")
assert callable(handler.load()())
run = os.environ["PET_RDZV_ID"]
options = SimpleNamespace(run_id=run, endpoint="", min_nodes=1, max_nodes=1, local_addr=None, config={})
connection = connect(options, Settings(), os.environ)
connection.act(lambda state: state.wait("here:1"))
assert connection.until(lambda state: state.number == 1, 60.0), connection.state
connection.act(lambda state: state.finish())
assert connection.until(lambda state: state.over, 60.0)
connection.close()
progress = Progress(total=3)
progress.add(steps=3, loss=0.25)
progress.close()
open("written.txt", "w").close()
seen = {"edl": edl.__file__, "layers": LAYERS, "cwd": os.getcwd(), "user": os.getuid(), "argv": sys.argv[1:]}
print(json.dumps(seen))
"""


@pytest.fixture(scope="session")
def python(own_cluster: Cluster) -> None:
    """Every node knows the image."""
    archive = python_image()
    for node in own_cluster.nodes:
        node.runtime.ctr("images", "import", str(archive))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "net.py").write_text("LAYERS = 3\n")
    return script


def report(namespace: Kubectl, pod: str) -> Manifest:
    found: Manifest = json.loads(namespace("logs", pod).splitlines()[-1])
    return found


def test_a_script_trains_in_an_image_that_has_nothing_of_ours(
    installed: Kubectl, python: None, namespace: Kubectl, project: Path
) -> None:
    where = ("--kubeconfig", str(namespace.kubeconfig), "-n", namespace.namespace)
    said = edl("run", str(project), *where, *SMALL, "--plain", "--", "--lr", "1")
    assert f"ships 2 files of {project.parent}" in said
    seen = report(namespace, "train-worker-0")
    assert (seen["edl"], seen["cwd"], seen["layers"]) == ("/edl/runtime/edl/__init__.py", "/edl/code", 3)
    assert seen["argv"] == ["--lr", "1"]
    job = namespace.get("elasticjobs.elastic.pytorch.org", "train")
    assert (job["status"]["progress"]["done"], job["status"]["progress"]["loss"]) == (3, 0.25)
    assert code_parts(namespace)
    edl("delete", "train", *where)
    eventually(lambda: not code_parts(namespace), within=30, what="the code goes with the job")


def code_parts(namespace: Kubectl) -> list[str]:
    found = namespace.get("configmaps", labels="edl.dev/job=train")["items"]
    return [one["metadata"]["name"] for one in found if "-code-" in one["metadata"]["name"]]


def test_where_nothing_is_allowed_any_user_is_brought_the_same(
    installed: Kubectl, python: None, namespace: Kubectl, project: Path
) -> None:
    namespace("label", "namespace", namespace.namespace, "pod-security.kubernetes.io/enforce=restricted")
    job = shipped(namespace, project, {"securityContext": RESTRICTED}, {}, "--plain")
    ended(namespace, job)
    assert report(namespace, f"{job}-worker-0")["user"] == 4321


def test_torch_trains_in_an_image_without_edl(
    installed: Kubectl, python: None, namespace: Kubectl, tmp_path: Path
) -> None:
    """Two workers of `edl.torch`, as another user, on a read-only root."""
    script = tmp_path / "elastic.py"
    script.write_text((REPOSITORY / "examples" / "pytorch" / "elastic.py").read_text())
    command = ["python", "-m", "torch.distributed.run", "elastic.py", "--epochs", "1", "--samples", "400"]
    container = {
        "command": command,
        "securityContext": RESTRICTED,
        "volumeMounts": [
            {"name": "torch", "mountPath": SITE_PACKAGES, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
        "env": [{"name": "HOME", "value": "/tmp"}],
    }
    torch = {"name": "torch", "hostPath": {"path": str(torch_directory()), "type": "Directory"}}
    pod = {"volumes": [torch, {"name": "tmp", "emptyDir": {}}]}
    job = shipped(namespace, script, container, pod, "--min", "2", "--max", "2")
    ended(namespace, job)
    words = sorted(namespace("logs", f"{job}-worker-{index}").splitlines()[-1] for index in (0, 1))
    assert words == ["rank 0 of 2 is done", "rank 1 of 2 is done"]


def shipped(namespace: Kubectl, script: Path, container: dict[str, Any], pod: dict[str, Any], *words: str) -> str:
    """What `edl run` submits, with more in its pods than it has options for; the job's name."""
    where = ("--kubeconfig", str(namespace.kubeconfig), "-n", namespace.namespace)
    made = json.loads(edl("run", str(script), *where, *SMALL, *words, "--dry-run", "-o", "json"))
    spec = made["spec"]["replicaSpecs"]["Worker"]["template"]["spec"]
    spec["containers"][0] |= container
    spec |= pod

    async def submit() -> str:
        options = Namespace(kubeconfig=str(namespace.kubeconfig), namespace=namespace.namespace)
        async with connected(options) as (client, place):
            return (await create_script_job(client, place, made, None, pack(script.parent))).name

    return asyncio.run(submit())


def ended(namespace: Kubectl, job: str) -> None:
    def phase() -> str:
        status = namespace.get("elasticjobs.elastic.pytorch.org", job).get("status") or {}
        found: str = status.get("phase", "")
        assert found != "Failed", status
        return found

    try:
        eventually(lambda: phase() == "Succeeded", within=120, what=f"{job} succeeds")
    except AssertionError:
        print(namespace("get", "pods", "-o", "wide"), namespace("logs", "-l", f"edl.dev/job={job}", "--tail=60"))
        raise
