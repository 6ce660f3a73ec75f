"""The Node object and its heart-beat: how a process node makes itself known to a cluster."""

import asyncio
import logging
import os
import platform
import time
from collections.abc import Mapping, Sequence
from typing import Any

import edl
from edl.api import timestamp
from edl.embedded.streams import WEBSOCKET_FEATURE
from edl.kube.budget import Lane
from edl.kube.client import Client
from edl.kube.errors import ApiError, KubeError
from edl.kube.resource import Resource

log = logging.getLogger(__name__)

NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
_RENEW_SECONDS = 10.0


def node_object(name: str, labels: Mapping[str, str], taints: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    own = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": architecture}
    meta = {"name": name, "labels": {**own, "edl.dev/node": "process", **labels}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {"taints": [*taints]} if taints else {}}


def node_status(
    *, address: str, port: int, capacity: Mapping[str, str], mode: str, ready: bool, now: float, name: str
) -> dict[str, Any]:
    reason = ("KubeletReady", "process node is ready") if ready else ("NodeShutdown", "the process node was stopped")
    return {
        "capacity": dict(capacity),
        "allocatable": dict(capacity),
        "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "declaredFeatures": [WEBSOCKET_FEATURE],
        "conditions": [
            _condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "", now),
            _condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "", now),
            _condition("PIDPressure", "False", "KubeletHasSufficientPID", "", now),
            _condition("Ready", "True" if ready else "False", *reason, now),
        ],
        "nodeInfo": {
            "architecture": platform.machine(),
            "bootID": "",
            "containerRuntimeVersion": f"edl://{edl.__version__}",
            "kernelVersion": platform.release(),
            "kubeProxyVersion": "",
            "kubeletVersion": "v1.36.0-edl",
            "machineID": "",
            "operatingSystem": "linux",
            "osImage": f"processes ({mode})",
            "systemUUID": "",
        },
    }


def _condition(kind: str, status: str, reason: str, message: str, now: float) -> dict[str, Any]:
    when = timestamp.text(now)
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": when,
        "lastTransitionTime": when,
    }


def machine_capacity() -> dict[str, str]:
    """What this machine has, for a node that declares nothing."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    gpus = sum(name.startswith("nvidia") and name[6:].isdigit() for name in os.listdir("/dev"))
    capacity = {"cpu": str(os.cpu_count() or 1), "memory": f"{memory >> 20}Mi"}
    return {**capacity, "nvidia.com/gpu": str(gpus)} if gpus else capacity


def capacity_of(nodes: int, *, cpu: str, memory: str, gpu: int, resources: Mapping[str, str]) -> dict[str, str]:
    """What each node offers: what is declared, else its share of the machine."""
    machine = machine_capacity()
    capacity = {
        "cpu": cpu or str(max(1, int(machine["cpu"]) // nodes)),
        "memory": memory or f"{max(1, int(machine['memory'].removesuffix('Mi')) // nodes)}Mi",
    }
    devices = gpu or int(machine.get("nvidia.com/gpu", "0")) // nodes
    return {**capacity, **({"nvidia.com/gpu": str(devices)} if devices else {}), **resources}


class Registration:
    def __init__(self, client: Client, name: str, body: Mapping[str, Any]) -> None:
        self._client = client
        self._name = name
        self._body = body
        self._uid = ""

    async def register(self, status: Mapping[str, Any]) -> None:
        """Create the Node, or take over the one of this name (the same node, started again)."""
        try:
            node = await self._client.create(NODES, {**self._body, "status": status})
        except ApiError as error:
            if not error.is_already_exists:
                raise
            node = await self._client.patch(
                NODES, self._name, {"metadata": {"labels": self._body["metadata"]["labels"]}}
            )
        self._uid = node["metadata"]["uid"]
        await self.write(status)
        await self._renew()

    async def write(self, status: Mapping[str, Any]) -> None:
        await self._client.patch(NODES, self._name, {"status": status}, kind="strategic", subresource="status")

    async def beat(self) -> None:
        """Renew the node's lease, for ever. A cluster that cannot be reached is tried again at the next beat."""
        while True:
            await asyncio.sleep(_RENEW_SECONDS)
            try:
                await self._renew()
            except KubeError as error:
                log.warning("node %s: the lease was not renewed: %s", self._name, error)

    async def _renew(self) -> None:
        spec = {
            "holderIdentity": self._name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": timestamp.micro_text(time.time()),
        }
        try:
            await self._client.patch(
                LEASES, self._name, {"spec": spec}, namespace=LEASE_NAMESPACE, lane=Lane.EXEMPT, timeout=5.0
            )
        except ApiError as error:
            if not error.is_not_found:
                raise
            owner = {"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": self._uid}
            meta = {"name": self._name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]}
            body = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": meta, "spec": spec}
            await self._client.create(LEASES, body, namespace=LEASE_NAMESPACE, lane=Lane.EXEMPT)
