"""A node: kubelet, kube-proxy, containerd and CNI, each with directories and a network namespace of its own."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.tier_kube.cluster import cgroups
from tests.tier_kube.cluster.build import binary
from tests.tier_kube.cluster.control_plane import ControlPlane
from tests.tier_kube.cluster.disk import copy_disk
from tests.tier_kube.cluster.network import BRIDGE_ADDRESS, POD_RANGE, Network, NodeNetwork
from tests.tier_kube.cluster.processes import Identity, Processes, kill
from tests.tier_kube.cluster.runtime import Runtime

BINARIES = ("kubelet", "kube-proxy")
_DISK_SIZE = "8g"


@dataclass(frozen=True)
class Node:
    """One node of a cluster, and the ways to lose it."""

    directory: Path
    cluster: str
    network: Network
    place: NodeNetwork
    control_plane: ControlPlane
    processes: Processes

    @property
    def name(self) -> str:
        return self.place.name

    @property
    def runtime(self) -> Runtime:
        return Runtime(
            self.directory, self._disk(), self.processes, name=self._process("containerd"), netns=self.place.namespace
        )

    @property
    def cgroup(self) -> str:
        return cgroup_name(self.cluster, self.name)

    def prepare(self, disk: Path) -> None:
        """Write the configuration and start containerd, which needs no API server, with what is on `disk`."""
        self.directory.mkdir(parents=True)
        self._disk().mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_DISK_SIZE}", "tmpfs", str(self._disk())], check=True)
        copy_disk(disk, self._disk())
        cgroups.create(self.cgroup)
        (self.directory / "resolv.conf").write_text(f"nameserver {BRIDGE_ADDRESS}\n")
        (self.directory / "kubelet.yaml").write_text(yaml.safe_dump(self._kubelet()))
        self.runtime.cni.mkdir()
        (self.runtime.cni / "pods.conflist").write_text(json.dumps(self._cni()))
        self.runtime.start()

    def join(self) -> None:
        """Start kubelet and kube-proxy; the node reports itself to the API server."""
        user = f"system:node:{self.name}"
        self._run("kubelet", [str(binary("kubelet")), *self._kubelet_flags(user)])
        proxy = [
            f"--kubeconfig={self.control_plane.component_kubeconfig('system:kube-proxy')}",
            f"--hostname-override={self.name}",
            "--proxy-mode=nftables",
            "--conntrack-max-per-core=0",
            f"--cluster-cidr={POD_RANGE}",
        ]
        self._run("kube-proxy", [str(binary("kube-proxy")), *proxy])

    def kill(self) -> None:
        """The machine dies: kubelet, the runtime and every container at once, without a word to anybody."""
        self.processes.kill(*(self._process(name) for name in ("kubelet", "kube-proxy", "containerd")))
        kill([*shims(self.runtime.socket), *cgroups.members(self.cgroup)])

    def revive(self) -> None:
        """The machine starts again with its disk as it was."""
        self.runtime.start()
        self.runtime.wait()
        self.join()

    def declare(self, resource: str, count: int) -> None:
        """Give the node devices that the scheduler counts, though there are none (kubelet alone would take 10 s)."""
        amount = {resource: str(count)}
        change = {"status": {"capacity": amount, "allocatable": amount}}
        self.control_plane.kubectl.patch(f"node/{self.name}", change, subresource="status")

    def unplug(self) -> None:
        """Cut the node's network; everything on it keeps running."""
        self.network.set_link(self.place, up=False)

    def plug(self) -> None:
        self.network.set_link(self.place, up=True)

    def _disk(self) -> Path:
        """In memory: thousands of files are written there twice as quickly."""
        return self.directory / "containerd"

    def _process(self, name: str) -> str:
        return f"{self.name}-{name}"

    def _run(self, name: str, argv: list[str]) -> None:
        self.processes.start(self._process(name), argv, netns=self.place.namespace)

    def _kubelet_flags(self, user: str) -> list[str]:
        return [
            f"--config={self.directory / 'kubelet.yaml'}",
            f"--kubeconfig={self.control_plane.component_kubeconfig(user)}",
            f"--hostname-override={self.name}",
            f"--node-ip={self.place.address}",
            f"--root-dir={self.directory / 'kubelet'}",
            f"--cert-dir={self.directory / 'kubelet-pki'}",
        ]

    def _kubelet(self) -> dict[str, object]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": f"unix://{self.runtime.socket}",
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.cgroup}",
            "failSwapOn": False,
            # The disk is the developer's: how full it is must not evict pods.
            "evictionHard": {},
            "imageGCHighThresholdPercent": 100,
            "localStorageCapacityIsolation": False,
            "clusterDNS": [BRIDGE_ADDRESS],
            "clusterDomain": "cluster.local",
            "resolvConf": str(self.directory / "resolv.conf"),
            "podLogsDir": str(self.directory / "logs"),
            "volumePluginDir": str(self.directory / "volume-plugins"),
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(self.control_plane.credentials.authority)},
            },
            "authorization": {"mode": "Webhook"},
            # Renewed every 3 s, well within the controller manager's grace period of 12 s.
            "nodeLeaseDurationSeconds": 12,
        }

    def _cni(self) -> dict[str, object]:
        # ptp and not bridge: every packet between pods is routed, so kube-proxy's rules see those within a node too.
        addresses = {
            "type": "host-local",
            "ranges": [[{"subnet": str(self.place.pods)}]],
            "routes": [{"dst": "0.0.0.0/0"}],
            "dataDir": str(self.directory / "addresses"),
        }
        return {"cniVersion": "0.4.0", "name": self.cgroup, "plugins": [{"type": "ptp", "ipam": addresses}]}


def cgroup_name(cluster: str, node: str) -> str:
    """Names the node's control group and its CNI network, so that both are recognised when they are cleared away."""
    return f"edl-{cluster}-{node}"


def shims(socket: Path) -> list[Identity]:
    """The containerd-shims that serve this containerd: it is named on their command line."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (directory / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if arguments[0].endswith(b"containerd-shim-runc-v2") and str(socket).encode() in arguments:
            found.append(Identity.of(int(directory.name)))
    return [identity for identity in found if identity]
