"""Cluster DNS: CoreDNS beside the control plane, known to every kubelet by the bridge's address."""

import socket
import struct
import time
from dataclasses import dataclass
from pathlib import Path

from tests.tier_kube.cluster.build import binary
from tests.tier_kube.cluster.control_plane import ControlPlane
from tests.tier_kube.cluster.network import BRIDGE_ADDRESS, entered
from tests.tier_kube.cluster.processes import Processes, StartError

BINARIES = ("coredns",)
_TIMEOUT = 30.0


@dataclass(frozen=True)
class Dns:
    """The server of `cluster.local`. It knows no other names: nothing in the cluster may depend on the outside."""

    control_plane: ControlPlane
    processes: Processes

    def start(self, namespace: Path) -> None:
        kubeconfig = self.control_plane.component_kubeconfig("dns")
        corefile = self.control_plane.directory / "Corefile"
        zone = f"kubernetes cluster.local in-addr.arpa {{\n  kubeconfig {kubeconfig}\n  ttl 1\n }}"
        corefile.write_text(f".:53 {{\n errors\n {zone}\n}}\n")
        self.processes.start("coredns", [str(binary("coredns")), "-conf", str(corefile)], netns=namespace)

    def wait(self, namespace: Path) -> None:
        """Until the API server's own name has an address."""
        deadline = time.monotonic() + _TIMEOUT
        while not self._resolves(namespace, "kubernetes.default.svc.cluster.local"):
            if time.monotonic() > deadline or not self.processes.alive("coredns"):
                raise StartError(f"cluster DNS does not answer\n{self.processes.tail('coredns')}")
            time.sleep(0.05)

    def _resolves(self, namespace: Path, name: str) -> bool:
        labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
        query = struct.pack(">6H", 1, 0, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">2H", 1, 1)
        with entered(namespace), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(0.5)
            try:
                client.sendto(query, (BRIDGE_ADDRESS, 53))
                answers: int = struct.unpack(">6H", client.recv(512)[:12])[3]
            except OSError:
                return False
        return answers > 0
