"""Removes every trace of a cluster, knowing only its name and its directory: after a test, an interrupt or a crash.

Processes are found by their records, containers by the node's control group, shims by the socket on their command line,
mounts by the directory they lie in, namespaces and CNI results by the cluster's name. Nothing is ever chosen by a
program's name alone.
"""

import ctypes
import json
import os
import shutil
from pathlib import Path

from tests.tier_kube.cluster import cgroups
from tests.tier_kube.cluster.network import Network
from tests.tier_kube.cluster.node import cgroup_name, shims
from tests.tier_kube.cluster.processes import Processes, kill

_MNT_DETACH = 2
_CNI_RESULTS = Path("/var/lib/cni/results")
_LOG_LINKS = Path("/var/log/containers")
# kubelet sets these for the whole machine.
_TUNABLES = tuple(
    Path("/proc/sys") / name
    for name in (
        "vm/overcommit_memory",
        "vm/panic_on_oom",
        "kernel/panic",
        "kernel/panic_on_oops",
        "kernel/keys/root_maxkeys",
        "kernel/keys/root_maxbytes",
    )
)


def remember_tunables(directory: Path) -> None:
    """Note what kubelet is about to change, to be put back by `teardown` of the last cluster that is there."""
    before = [file.read_text() for file in directory.parent.glob("*/tunables.json")]
    now = json.dumps({str(path): path.read_text() for path in _TUNABLES})
    (directory / "tunables.json").write_text(before[0] if before else now)


def teardown(name: str, directory: Path) -> None:
    """Stop and remove the cluster `name` of `directory`, whole or in pieces. Running it twice changes nothing."""
    processes = Processes(records=directory / "processes", logs=directory / "logs")
    processes.kill(*processes.names())
    nodes = sorted(path.name for path in directory.glob("nodes/*"))
    for node in nodes:
        _remove_containers(directory / "nodes" / node, cgroup_name(name, node))
    _unmount_below(directory)
    if nodes:
        Network(name).delete()
        _restore_tunables(directory)
    shutil.rmtree(directory, ignore_errors=False)


def _remove_containers(directory: Path, group: str) -> None:
    socket = directory / "containerd.sock"
    # A shim that is being started may fork once more: repeat until none is left.
    while left := [*shims(socket), *cgroups.members(group)]:
        kill(left)
    cgroups.delete(group)
    for address in directory.glob("run/io.containerd.runtime.v2.task/*/*/address"):
        Path(address.read_text().removeprefix("unix://")).unlink(missing_ok=True)
    for result in _CNI_RESULTS.glob(f"{group}-*-eth0"):
        container = result.name.removeprefix(f"{group}-").removesuffix("-eth0")
        (_CNI_RESULTS / f"cni-loopback-{container}-lo").unlink(missing_ok=True)
        result.unlink(missing_ok=True)
    if _LOG_LINKS.exists():
        for link in _LOG_LINKS.iterdir():
            if link.is_symlink() and link.readlink().is_relative_to(directory):
                link.unlink(missing_ok=True)


def _unmount_below(directory: Path) -> None:
    mounts = [_unescaped(line.split()[4]) for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    libc = ctypes.CDLL(None, use_errno=True)
    for mount in reversed([mount for mount in mounts if Path(mount).is_relative_to(directory)]):
        if libc.umount2(os.fsencode(mount), _MNT_DETACH):
            raise OSError(ctypes.get_errno(), f"cannot unmount {mount}")


def _unescaped(field: str) -> str:
    """Spaces and the like are octal escapes in mountinfo."""
    return field.encode().decode("unicode_escape")


def _restore_tunables(directory: Path) -> None:
    file = directory / "tunables.json"
    if not file.exists():
        return
    before = json.loads(file.read_text())
    file.unlink()  # first, so that of two that end at the same time not each leaves it to the other
    if not list(directory.parent.glob("*/tunables.json")):
        for path, value in before.items():
            Path(path).write_text(value)
