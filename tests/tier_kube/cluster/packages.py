"""The Debian packages that container nodes and images need; installed when they are missing, which needs root."""

import os
import shutil
import subprocess

# A file that each package brings, by which its presence is known on any distribution.
PACKAGES = {
    "containerd": "containerd",
    "runc": "runc",
    "containernetworking-plugins": "/usr/lib/cni/ptp",
    "nftables": "nft",
    "iproute2": "ip",
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "busybox-static": "busybox",
}
_SYSTEM_PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


class MissingError(Exception):
    """The machine lacks something that the harness cannot provide by itself."""


def program(name: str) -> str:
    """The full path of a program of those packages."""
    if found := shutil.which(name, path=_SYSTEM_PATH):
        return found
    raise MissingError(f"{name} is not installed: run `python -m tests.tier_kube.cluster build` as root")


def require_root() -> None:
    if os.geteuid() != 0:
        raise MissingError(
            "needs root: a cluster with container nodes makes network namespaces, cgroups and mounts. "
            "Run `sudo make test-kube`, or point KUBECONFIG at a cluster that is there"
        )


def install_packages() -> None:
    """Install what is missing of `PACKAGES`."""
    missing = [package for package, proof in PACKAGES.items() if not shutil.which(proof, path=_SYSTEM_PATH)]
    if not missing:
        return
    if not shutil.which("apt-get"):
        raise MissingError(f"needs {', '.join(missing)}: install them with this system's package manager")
    require_root()
    print(f"installing {', '.join(missing)}", flush=True)
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "--yes", "--no-install-recommends", *missing]):
        done = subprocess.run(["apt-get", "-q", *command], env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise MissingError(f"apt-get {' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
