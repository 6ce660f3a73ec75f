"""containerd, with directories of its own: two kubelets on one of them would remove each other's pods."""

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tests.tier_kube.cluster.packages import program
from tests.tier_kube.cluster.processes import Processes, StartError
from tests.tier_kube.cluster.tiny_image import TINY_IMAGE

CNI_PLUGINS = "/usr/lib/cni"
_TIMEOUT = 30.0


@dataclass(frozen=True)
class Runtime:
    """Called `name` among `processes`; images and containers lie on `disk`, what passes with it in `directory`."""

    directory: Path
    disk: Path
    processes: Processes
    name: str = "containerd"
    netns: Path | None = None

    @property
    def socket(self) -> Path:
        return self.directory / "containerd.sock"

    @property
    def cni(self) -> Path:
        """Where it is told how pods are networked."""
        return self.directory / "cni"

    def start(self) -> None:
        file = self.directory / "containerd.toml"
        file.write_text(self._config())
        self.processes.start(self.name, [program("containerd"), "--config", str(file)], netns=self.netns)

    def wait(self) -> None:
        """Until it answers."""
        deadline = time.monotonic() + _TIMEOUT
        while True:
            try:
                return self.ctr("plugins", "ls")
            except StartError as error:
                if time.monotonic() > deadline or not self.processes.alive(self.name):
                    raise StartError(f"{self.name} did not start\n{self.processes.tail(self.name)}") from error
            time.sleep(0.05)

    def ctr(self, *arguments: str) -> None:
        command = [program("ctr"), "--address", str(self.socket), "--namespace", "k8s.io", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise StartError(f"ctr {' '.join(arguments)}: {done.stderr.strip()}")

    def _config(self) -> str:
        return f"""version = 2
root = "{self.disk}"
state = "{self.directory / "run"}"
[grpc]
address = "{self.socket}"
[plugins."io.containerd.internal.v1.opt"]
path = "{self.directory / "opt"}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{TINY_IMAGE}"
# Without CAP_SYS_RESOURCE, as in many sandboxes, runc could not lower the score and would fail.
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{CNI_PLUGINS}"
conf_dir = "{self.cni}"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
Root = "{self.directory / "runc"}"
"""
