"""The tier's own cluster is a real one: what later tests take for granted about it."""

import json
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.tier_kube.cluster.build import TOOLS
from tests.tier_kube.cluster.cluster import Cluster
from tests.tier_kube.cluster.disk import disk_with
from tests.tier_kube.cluster.kubectl import Kubectl, eventually
from tests.tier_kube.cluster.node import Node
from tests.tier_kube.cluster.processes import Processes
from tests.tier_kube.cluster.tiny_image import tiny_image
from tests.tier_kube.manifests import fetch, http_pod, pod, service

pytestmark = pytest.mark.kube


def _ready(kubectl: Kubectl, node: Node) -> str:
    conditions = kubectl.get("node", node.name)["status"]["conditions"]
    return str(next(each["status"] for each in conditions if each["type"] == "Ready"))


def test_every_part_is_of_the_pinned_version(own_cluster: Cluster) -> None:
    pinned = next(tool.version for tool in TOOLS if tool.name == "kubernetes")
    server = json.loads(own_cluster.kubectl("version", "-o", "json"))["serverVersion"]["gitVersion"]
    kubelets = {each["status"]["nodeInfo"]["kubeletVersion"] for each in own_cluster.kubectl.get("nodes")["items"]}
    assert {server} | kubelets == {pinned}


def test_pods_on_both_nodes_answer_by_name(own_cluster: Cluster, namespace: Kubectl) -> None:
    servers = [http_pod(f"on-{node.name}", nodeName=node.name) for node in own_cluster.nodes]
    services = [service(f"at-{node.name}", app=f"on-{node.name}") for node in own_cluster.nodes]
    headless = service("direct", app="on-node-2", headless=True)
    namespace.apply(*servers, *services, headless, pod("client", nodeName="node-1"))
    namespace("wait", "pod", "--all", "--for=condition=Ready", "--timeout=60s")
    for host, answer in (("at-node-1", "on-node-1"), ("at-node-2", "on-node-2")):
        asked = partial(namespace, "exec", "client", "--", "sh", "-c", fetch(host))
        # kube-proxy learns of the Service a moment after the pods are ready.
        eventually(asked, within=20, what=f"an answer at {host}")
        assert asked() == answer
    assert namespace("exec", "client", "--", "sh", "-c", fetch("direct", 8080)) == "on-node-2"


def test_logs_and_exit_codes_come_from_the_container(own_cluster: Cluster, namespace: Kubectl) -> None:
    namespace.apply(pod("fails", script="echo last words; exit 7", restartPolicy="Never"))
    namespace("wait", "pod/fails", "--for=jsonpath={.status.phase}=Failed", "--timeout=60s")
    ended = namespace.get("pod", "fails")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], namespace("logs", "fails")) == (7, "last words")


def test_a_running_pod_is_resized_in_place(own_cluster: Cluster, namespace: Kubectl) -> None:
    resources = {"requests": {"cpu": "100m", "memory": "16Mi"}, "limits": {"cpu": "200m", "memory": "32Mi"}}
    namespace.apply(pod("grows", container={"resources": resources}))
    namespace("wait", "pod/grows", "--for=condition=Ready", "--timeout=60s")
    larger = {"requests": {"cpu": "300m"}, "limits": {"cpu": "400m"}}
    change = {"spec": {"containers": [{"name": "main", "resources": larger}]}}
    namespace.patch("pod/grows", change, subresource="resize", kind="strategic")

    def resized() -> bool:
        status = namespace.get("pod", "grows")["status"]["containerStatuses"][0]
        return bool(status["resources"]["limits"]["cpu"] == "400m" and status["restartCount"] == 0)

    eventually(resized, within=30, what="the resize")


def test_a_node_declares_devices_that_the_scheduler_counts(own_cluster: Cluster, namespace: Kubectl) -> None:
    node = own_cluster.nodes[1]
    node.declare("example.com/gpu", 1)
    limits = {"resources": {"limits": {"example.com/gpu": "1"}}}
    namespace.apply(pod("first", container=limits))
    namespace("wait", "pod/first", "--for=condition=Ready", "--timeout=60s")
    namespace.apply(pod("second", container=limits))
    namespace("wait", "pod/second", "--for=condition=PodScheduled=false", "--timeout=30s")
    assert namespace.get("pod", "first")["spec"]["nodeName"] == node.name


def test_the_audit_log_has_bodies_of_writes_but_no_secret(own_cluster: Cluster, namespace: Kubectl) -> None:
    namespace("create", "configmap", "seen", "--from-literal=key=value")
    namespace("create", "secret", "generic", "unseen", "--from-literal=key=value")
    lines = [json.loads(line) for line in own_cluster.control_plane.audit_log.read_text().splitlines()]
    written = {
        each["objectRef"]["resource"]: each.get("requestObject")
        for each in lines
        if each["verb"] == "create" and each["objectRef"].get("namespace") == namespace.namespace
    }
    assert written["configmaps"]["data"] == {"key": "value"}
    assert written["secrets"] is None


@pytest.mark.timeout(180)
def test_a_node_dies_and_comes_back(own_cluster: Cluster, namespace: Kubectl) -> None:
    node = own_cluster.nodes[1]
    namespace.apply(http_pod("victim", nodeName=node.name))
    namespace("wait", "pod/victim", "--for=condition=Ready", "--timeout=60s")
    node.kill()
    eventually(lambda: _ready(own_cluster.kubectl, node) == "Unknown", within=60, what="the loss of the node")
    namespace("wait", "pod/victim", "--for=condition=Ready=false", "--timeout=30s")
    node.revive()
    eventually(lambda: _ready(own_cluster.kubectl, node) == "True", within=60, what="the node's return")
    namespace("wait", "pod/victim", "--for=condition=Ready", "--timeout=60s")
    assert namespace.get("pod", "victim")["status"]["containerStatuses"][0]["restartCount"] == 1


@pytest.mark.timeout(180)
def test_a_node_is_cut_off_while_its_pods_keep_running(own_cluster: Cluster, namespace: Kubectl) -> None:
    node = own_cluster.nodes[1]
    namespace.apply(pod("alone", nodeName=node.name))
    namespace("wait", "pod/alone", "--for=condition=Ready", "--timeout=60s")
    node.unplug()
    try:
        eventually(lambda: _ready(own_cluster.kubectl, node) == "Unknown", within=60, what="the loss of the node")
    finally:
        node.plug()
    eventually(lambda: _ready(own_cluster.kubectl, node) == "True", within=60, what="the node's return")
    assert namespace.get("pod", "alone")["status"]["containerStatuses"][0]["restartCount"] == 0


@pytest.fixture
def empty_cache(own_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """At a short path: it holds a socket."""
    with tempfile.TemporaryDirectory(prefix="edl-") as directory:
        monkeypatch.setenv("EDL_CACHE", directory)
        yield Path(directory)


def test_a_disk_is_made_once_whatever_a_killed_run_left(empty_cache: Path) -> None:
    unfinished = empty_cache / "disks" / "unfinished"
    left = Processes(records=unfinished / "processes", logs=unfinished / "logs")
    left.start("containerd", ["sleep", "60"])
    disk = disk_with([tiny_image()])
    assert not left.alive("containerd")
    left.kill("containerd")
    made = disk.stat().st_mtime_ns
    assert disk_with([tiny_image()]) == disk
    assert disk.stat().st_mtime_ns == made
    assert sorted(path.name for path in disk.parent.iterdir()) == [".lock", disk.name]
