"""Assumptions of the design about EDL's pods and endpoints among the built-in controllers."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.tier_kube.cluster.cluster import Cluster
from tests.tier_kube.cluster.kubectl import Kubectl, Manifest, eventually
from tests.tier_kube.manifests import fetch, http_pod, pod, service

pytestmark = pytest.mark.kube
OBEDIENT = "trap 'exit 143' TERM; while :; do sleep 0.1; done"


def _owned(kubectl: Kubectl, manifest: Manifest) -> Manifest:
    """A pod whose controller is the managed Job `owner`."""
    owner = kubectl.get("job", "owner")["metadata"]
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "owner", "uid": owner["uid"], "controller": True}
    manifest["metadata"] |= {"ownerReferences": [reference]}
    return manifest


@pytest.fixture
def owner(namespace: Kubectl) -> Kubectl:
    """kubectl in a namespace with a Job `owner` that is managed by us."""
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}}
    spec = {"managedBy": "edl.dev/operator", "parallelism": 1, "template": template}
    namespace.apply({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "owner"}, "spec": spec})
    return namespace


@pytest.fixture
def corpse(owner: Kubectl) -> Iterator[Kubectl]:
    """A running pod `corpse` on the first node; a finalizer keeps it for examination when it was removed."""
    spec: dict[str, Any] = {"nodeName": "node-1", "restartPolicy": "Never", "terminationGracePeriodSeconds": 5}
    manifest = _owned(owner, pod("corpse", script=OBEDIENT, **spec))
    manifest["metadata"]["finalizers"] = ["edl.dev/test"]
    owner.apply(manifest)
    try:
        owner("wait", "pod/corpse", "--for=condition=Ready", "--timeout=60s")
        yield owner
    finally:
        owner.patch("pod/corpse", {"metadata": {"finalizers": None}})


def _end(kubectl: Kubectl) -> tuple[str, int, str | None]:
    """The phase, exit code and reason of disruption of the removed pod."""

    def ended() -> Manifest | None:
        status: Manifest = kubectl.get("pod", "corpse")["status"]
        return status if "terminated" in status["containerStatuses"][0]["state"] else None

    status = eventually(ended, within=30, what="the pod's end")
    reasons = [each["reason"] for each in status["conditions"] if each["type"] == "DisruptionTarget"]
    code = status["containerStatuses"][0]["state"]["terminated"]["exitCode"]
    return status["phase"], code, reasons[0] if reasons else None


def test_an_evicted_pod_says_so(own_cluster: Cluster, corpse: Kubectl) -> None:
    metadata = {"name": "corpse", "namespace": corpse.namespace}
    eviction = json.dumps({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata})
    corpse("create", "--raw", f"/api/v1/namespaces/{corpse.namespace}/pods/corpse/eviction", "-f", "-", stdin=eviction)
    assert _end(corpse) == ("Failed", 143, "EvictionByEvictionAPI")


def test_a_deleted_pod_names_no_disruption(own_cluster: Cluster, corpse: Kubectl) -> None:
    corpse("delete", "pod", "corpse", "--wait=false")
    assert _end(corpse) == ("Failed", 143, None)


def test_drain_takes_our_pods_without_force(own_cluster: Cluster, owner: Kubectl) -> None:
    node = own_cluster.nodes[1].name
    owner.apply(_owned(owner, pod("leaves", script=OBEDIENT, nodeName=node)))
    owner("wait", "pod/leaves", "--for=condition=Ready", "--timeout=60s")
    try:
        owner("drain", node, "--ignore-daemonsets", "--timeout=30s", "--pod-selector=app=leaves")
        assert owner.get("pods", labels="app=leaves")["items"] == []
    finally:
        owner("uncordon", node)


def test_deleting_the_job_deletes_its_pods(cluster: Kubectl, owner: Kubectl) -> None:
    owner.apply(_owned(owner, pod("child")))
    owner("delete", "job", "owner")
    owner("wait", "pod/child", "--for=delete", "--timeout=60s")


def test_a_plan_outweighs_the_schedulers_taste_once_default_spreading_is_off(
    own_cluster: Cluster, namespace: Kubectl
) -> None:
    """A Service that selects pods makes the scheduler spread them, against a preferred node, unless they bring a
    constraint of their own; one that counts no pods (it has no selector) does nothing but that."""
    node = own_cluster.nodes[0].name
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    spec: dict[str, Any] = {
        "affinity": {
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": term}]}
        },
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
        ],
        "container": {"resources": {"requests": {"cpu": "10m"}}},
    }
    pods = [pod(f"planned-{index}", **spec) for index in range(20)]
    for each in pods:
        each["metadata"]["labels"] = {"app": "planned"}
    namespace.apply(service("planned", app="planned", headless=True), *pods)
    namespace("wait", "pod", "-l", "app=planned", "--for=condition=PodScheduled", "--timeout=60s")
    assert {each["spec"]["nodeName"] for each in namespace.get("pods", labels="app=planned")["items"]} == {node}


def test_a_service_follows_the_endpoints_that_we_write(cluster: Kubectl, namespace: Kubectl) -> None:
    """How the job service moves to a new leader. A connection that is open stays with the old one."""
    namespace.apply(http_pod("first"), http_pod("second"), pod("client"), service("leader", app=None))
    namespace("wait", "pod", "--all", "--for=condition=Ready", "--timeout=60s")
    for leader in ("first", "second", "first"):
        namespace.apply(_slice(leader, namespace.get("pod", leader)["status"]["podIP"]))
        answer = f'test "$({fetch("leader")})" = {leader} && echo yes'
        eventually(partial(namespace, "exec", "client", "--", "sh", "-c", answer), within=20, what=f"{leader} leads")


def _slice(leader: str, address: str) -> Manifest:
    labels = {"kubernetes.io/service-name": "leader", "endpointslice.kubernetes.io/managed-by": "edl.dev"}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "leader", "labels": labels},
        "addressType": "IPv4",
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        "endpoints": [
            {"addresses": [address], "conditions": {"ready": True}, "targetRef": {"kind": "Pod", "name": leader}}
        ],
    }
