"""The control groups of a node: kubelet wants its root to exist in every hierarchy, version 1, hybrid or 2."""

import errno
import os
import time
from pathlib import Path

from tests.tier_kube.cluster.processes import Identity

_MOUNTS = Path("/proc/self/mountinfo")
_BUSY_TIMEOUT = 10.0


def hierarchies() -> list[Path]:
    """Where control groups are mounted: the single version 2 tree, or the version 1 trees."""
    return _mounted("cgroup") or _mounted("cgroup2")


def _mounted(kind: str) -> list[Path]:
    mounts = (line.partition(" - ") for line in _MOUNTS.read_text().splitlines())
    return [Path(before.split()[4]) for before, _, after in mounts if after.split()[0] == kind]


def create(name: str) -> None:
    """Make the group in every hierarchy, able to hold processes and groups of its own."""
    for tree in hierarchies():
        group = tree / name
        group.mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):
            # Version 1 refuses processes in a group whose cpuset is empty, and a new one is.
            if (tree / "cgroup.clone_children").exists() and (group / file).exists():
                (group / file).write_text((tree / file).read_text())
        if (tree / "cgroup.subtree_control").exists():
            controllers = (tree / "cgroup.controllers").read_text().split()
            (tree / "cgroup.subtree_control").write_text(" ".join(f"+{controller}" for controller in controllers))


def members(name: str) -> list[Identity]:
    """Every process in the group or below it: the containers of a node, whoever started them."""
    pids: set[int] = set()
    for tree in hierarchies():
        for file in (tree / name).rglob("cgroup.procs"):
            try:
                pids.update(int(pid) for pid in file.read_text().split())
            except OSError:
                continue
    return [identity for pid in pids if (identity := Identity.of(pid))]


def delete(name: str) -> None:
    """Remove the group from every hierarchy, also those where others made it; its processes must be gone."""
    for tree in _mounted("cgroup") + _mounted("cgroup2"):
        for directory, _, _ in os.walk(tree / name, topdown=False):
            _remove(Path(directory))


def _remove(directory: Path) -> None:
    """The kernel holds a group for a moment after its last process has ended."""
    deadline = time.monotonic() + _BUSY_TIMEOUT
    while True:
        try:
            return directory.rmdir()
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.02)
