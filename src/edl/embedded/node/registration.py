"""Registers a process node and keeps the cluster informed: its Node object, its status, and the lease that it renews.

As a kubelet does, it compares at every heartbeat what the server has with what is true and posts what differs: a node
that was given up while it was paused or cut off comes back by itself.
"""

import asyncio
import contextlib
import logging
import os
import platform
import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

import edl
from edl.api.kubernetes import quantity, timestamp
from edl.api.kubernetes.version import newest_minor
from edl.api.labels import LABEL_PROCESS_NODE
from edl.embedded.node.pressure import CONDITIONS
from edl.embedded.resources import LEASES, NODES
from edl.embedded.streaming.streams import WEBSOCKET_FEATURE
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError, KubeError
from edl.kube.rest.rate_limiter import RequestPriority

log = logging.getLogger(__name__)

DISK = "ephemeral-storage"
LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
HEARTBEAT_SECONDS = 10.0
_REPORT_SECONDS = 300.0
"""A status that did not change is posted again after so long, for its heartbeat times."""
_CALL_SECONDS = 5.0
_RETRY_SECONDS = 1.0


def node_object(name: str, labels: Mapping[str, str], taints: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    own = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": architecture}
    meta = {"name": name, "labels": {**own, LABEL_PROCESS_NODE: "process", **labels}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {"taints": [*taints]} if taints else {}}


def node_status(
    *,
    address: str,
    port: int,
    capacity: Mapping[str, str],
    mode: str,
    ready: bool,
    now: float,
    name: str,
    pressure: Collection[str] = (),
) -> dict[str, Any]:
    reason = ("KubeletReady", "process node is ready") if ready else ("NodeShutdown", "the process node was stopped")
    return {
        "capacity": dict(capacity),
        "allocatable": dict(capacity),
        "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "declaredFeatures": [WEBSOCKET_FEATURE],
        "conditions": [
            *(
                _condition(kind, str(kind in pressure), reasons[kind in pressure], "", now)
                for kind, reasons in CONDITIONS.items()
            ),
            _condition("Ready", "True" if ready else "False", *reason, now),
        ],
        "nodeInfo": {
            "architecture": platform.machine(),
            "bootID": "",
            "containerRuntimeVersion": f"edl://{edl.__version__}",
            "kernelVersion": platform.release(),
            "kubeProxyVersion": "",
            "kubeletVersion": f"v{newest_minor()}.0-edl",
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


def agrees(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Whether the server's status says what ours does. What others added to it is not ours to judge."""
    return (
        all(_same_amounts(ours[field], theirs.get(field) or {}) for field in ("capacity", "allocatable"))
        and _conditions(ours).items() <= _conditions(theirs).items()
        and all(ours[field] == theirs.get(field) for field in ("addresses", "daemonEndpoints"))
        and ours["nodeInfo"].items() <= (theirs.get("nodeInfo") or {}).items()
    )


def _same_amounts(ours: Mapping[str, str], theirs: Mapping[str, str]) -> bool:
    return all(name in theirs and quantity.nano(theirs[name]) == quantity.nano(ours[name]) for name in ours)


def _conditions(status: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    return {one["type"]: (one["status"], one.get("reason", "")) for one in status.get("conditions") or ()}


def dated(ours: dict[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Our status with the times of the transitions that were none."""
    since = {(one["type"], one["status"]): one.get("lastTransitionTime") for one in theirs.get("conditions") or ()}
    conditions = [
        {**one, "lastTransitionTime": since.get((one["type"], one["status"])) or one["lastTransitionTime"]}
        for one in ours["conditions"]
    ]
    return {**ours, "conditions": conditions}


def machine_capacity(directory: Path) -> dict[str, str]:
    """What this machine has, for a node that declares nothing; of disks, the free space where `directory` is or will
    be made."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    gpus = sum(name.startswith("nvidia") and name[6:].isdigit() for name in os.listdir("/dev"))
    there = next(place for place in (directory, *directory.absolute().parents) if place.exists())
    disk = shutil.disk_usage(there).free
    capacity = {"cpu": str(os.cpu_count() or 1), "memory": f"{memory >> 20}Mi", DISK: f"{disk >> 20}Mi"}
    return {**capacity, "nvidia.com/gpu": str(gpus)} if gpus else capacity


class DeclaredCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """What each node is said to offer; what is left out is its share of the machine."""

    cpu: str = ""
    memory: str = ""
    disk: str = ""
    gpu: int = 0
    resources: Mapping[str, str] = msgspec.field(default_factory=dict)


def capacity_of(nodes: int, *, directory: Path, declared: DeclaredCapacity) -> dict[str, str]:
    """What each node offers. Pods keep what they write in `directory`."""
    machine = machine_capacity(directory)
    capacity = {
        "cpu": declared.cpu or str(max(1, int(machine["cpu"]) // nodes)),
        "memory": declared.memory or _share(machine["memory"], nodes),
        DISK: declared.disk or _share(machine[DISK], nodes),
    }
    devices = declared.gpu or int(machine.get("nvidia.com/gpu", "0")) // nodes
    return {**capacity, **({"nvidia.com/gpu": str(devices)} if devices else {}), **declared.resources}


def _share(mebibytes: str, nodes: int) -> str:
    return f"{max(1, int(mebibytes.removesuffix('Mi')) // nodes)}Mi"


class Registration:
    """`status` builds the node's status as it is now."""

    def __init__(
        self, client: Client, name: str, body: Mapping[str, Any], status: Callable[[], dict[str, Any]]
    ) -> None:
        self._client = client
        self._name = name
        self._body = body
        self._status = status
        self._uid = ""
        self._posted_at = 0.0
        self._wake = asyncio.Event()

    async def register(self) -> None:
        """Create the Node, or take over the one of this name (the same node, started again)."""
        try:
            node = await self._client.create(NODES, {**self._body, "status": self._status()})
        except ApiError as error:
            if not error.is_already_exists:
                raise
            node = await self._client.patch(
                NODES, self._name, {"metadata": {"labels": self._body["metadata"]["labels"]}}
            )
        self._uid = node["metadata"]["uid"]
        await self._write(self._status())
        await self._renew()

    async def post(self) -> None:
        """Write the status if the server's differs from it, or is old."""
        node = await self._client.get(NODES, self._name, priority=RequestPriority.EXEMPT, timeout=_CALL_SECONDS)
        status, theirs = self._status(), node.get("status") or {}
        old = time.monotonic() - self._posted_at >= _REPORT_SECONDS
        if old or not agrees(status, theirs):
            await self._write(dated(status, theirs))

    async def _write(self, status: Mapping[str, Any]) -> None:
        await self._client.patch(
            NODES,
            self._name,
            {"status": status},
            kind="strategic",
            subresource="status",
            priority=RequestPriority.EXEMPT,
            timeout=_CALL_SECONDS,
        )
        self._posted_at = time.monotonic()

    def hurry(self) -> None:
        """The status has changed in a way that the cluster should know at once."""
        self._wake.set()

    async def beat(self, seconds: float) -> None:
        """Renew the lease and post the status, for ever. A cluster that cannot be reached is tried again soon: pods
        are evicted within seconds once a node counts as lost."""
        informed = True
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds if informed else min(seconds, _RETRY_SECONDS)):
                    await self._wake.wait()
            self._wake.clear()
            informed = await self._beat_once()

    async def _beat_once(self) -> bool:
        """The lease comes first: a node that is ready with an old lease would be given up again."""
        try:
            await self._renew()
            await self.post()
        except KubeError as error:
            log.warning("node %s: the cluster was not informed: %s", self._name, error)
            return False
        except Exception:
            log.exception("node %s: the cluster was not informed", self._name)
            return False
        return True

    async def _renew(self) -> None:
        spec = {
            "holderIdentity": self._name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": timestamp.micro_text(time.time()),
        }
        try:
            await self._client.patch(
                LEASES,
                self._name,
                {"spec": spec},
                namespace=LEASE_NAMESPACE,
                priority=RequestPriority.EXEMPT,
                timeout=_CALL_SECONDS,
            )
        except ApiError as error:
            if not error.is_not_found:
                raise
            owner = {"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": self._uid}
            meta = {"name": self._name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]}
            body = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": meta, "spec": spec}
            await self._client.create(LEASES, body, namespace=LEASE_NAMESPACE, priority=RequestPriority.EXEMPT)
