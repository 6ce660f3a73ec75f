"""The cluster's network: a namespace with a bridge for the control plane, one per node joined to it, invisible outside.

The namespaces are named after the cluster, and every interface is made inside them: clusters meet neither each other
nor the machine.
"""

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

from tests.tier_kube.cluster.packages import program

BRIDGE_ADDRESS = "10.250.0.1"
POD_RANGE = IPv4Network("10.244.0.0/16")
SERVICE_RANGE = IPv4Network("10.96.0.0/16")
API_SERVICE_ADDRESS = str(SERVICE_RANGE[1])
_NAMESPACES = Path("/run/netns")
_CLONE_NEWNET = 0x40000000


@dataclass(frozen=True)
class NodeNetwork:
    """Where a node lives: its namespace, its address on the bridge and the range of its pods."""

    name: str
    index: int
    namespace: Path

    @property
    def address(self) -> str:
        return f"10.250.0.{10 + self.index}"

    @property
    def pods(self) -> IPv4Network:
        return list(POD_RANGE.subnets(new_prefix=24))[self.index]


class Network:
    """All namespaces of one cluster."""

    def __init__(self, cluster: str) -> None:
        self._prefix = f"edl-{cluster}"

    @property
    def control(self) -> Path:
        return _NAMESPACES / self._prefix

    def node(self, index: int) -> NodeNetwork:
        return NodeNetwork(f"node-{index}", index, _NAMESPACES / f"{self._prefix}-node-{index}")

    def create(self, nodes: int) -> None:
        _ip("netns", "add", self.control.name)
        for command in (
            "link set lo up",
            "link add bridge type bridge",
            f"address add {BRIDGE_ADDRESS}/24 dev bridge",
            "link set bridge up",
        ):
            _ip("-n", self.control.name, *command.split())
        for index in range(1, nodes + 1):
            self.add(self.node(index), [self.node(other) for other in range(1, index)])

    def add(self, node: NodeNetwork, others: list[NodeNetwork]) -> None:
        """Join a node to the bridge and to the others that are there."""
        self._join(node)
        _ip("-n", node.namespace.name, "route", "add", "default", "via", BRIDGE_ADDRESS)
        for here, there in [(node, other) for other in others] + [(other, node) for other in others]:
            _ip("-n", here.namespace.name, "route", "add", str(there.pods), "via", there.address)

    def _join(self, node: NodeNetwork) -> None:
        _ip("netns", "add", node.namespace.name)
        uplink = f"link add {node.name} type veth peer name eth0 netns {node.namespace.name}"
        for command in (uplink, f"link set {node.name} master bridge up"):
            _ip("-n", self.control.name, *command.split())
        for command in ("link set lo up", f"address add {node.address}/24 dev eth0", "link set eth0 up"):
            _ip("-n", node.namespace.name, *command.split())
        with entered(node.namespace):
            Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        _ip("-n", self.control.name, "route", "add", str(node.pods), "via", node.address)

    def set_link(self, node: NodeNetwork, *, up: bool) -> None:
        """Plug or unplug a node's cable, at the bridge's end, so that the node keeps its addresses and routes."""
        _ip("-n", self.control.name, "link", "set", node.name, "up" if up else "down")

    def delete(self) -> None:
        """Remove every namespace of this cluster, and with them their interfaces."""
        if not _NAMESPACES.exists():
            return
        for path in _NAMESPACES.iterdir():
            if path.name == self._prefix or path.name.startswith(f"{self._prefix}-node-"):
                _ip("netns", "delete", path.name)


@contextmanager
def entered(namespace: Path) -> Iterator[None]:
    """Move the calling thread into a network namespace; sockets made meanwhile belong to it for good."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    there = os.open(namespace, os.O_RDONLY)
    try:
        _set_namespace(there)
        try:
            yield
        finally:
            _set_namespace(home)
    finally:
        os.close(there)
        os.close(home)


def _set_namespace(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "cannot enter the network namespace")


def _ip(*arguments: str) -> None:
    done = subprocess.run([program("ip"), *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
