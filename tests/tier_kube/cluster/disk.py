"""Disks of nodes with images on them, unpacked once and kept in the cache: unpacking thousands of files takes seconds
of the processor for every node, copying them a fraction of that."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.tier_kube.cluster.cache import cache_root, fingerprint, locked
from tests.tier_kube.cluster.processes import Processes
from tests.tier_kube.cluster.runtime import Runtime

_KEPT = 4


def disk_with(archives: Sequence[Path]) -> Path:
    """A directory as containerd leaves it when it has loaded these docker archives."""
    disks = cache_root() / "disks"
    known = ((archive.name, archive.stat()) for archive in archives)
    disk = disks / fingerprint(*(f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in known))
    with locked(disks / ".lock"):  # all nodes of all workers want it at once
        if not disk.exists():
            _make(disk, archives)
            _forget_old(disks)
    return disk


def copy_disk(disk: Path, target: Path) -> None:
    """With all that tells one layer's files from another's: owners, attributes, links."""
    subprocess.run(["cp", "--archive", f"{disk}/.", str(target)], check=True)


def _make(disk: Path, archives: Sequence[Path]) -> None:
    directory = disk.with_name("unfinished")
    processes = Processes(records=directory / "processes", logs=directory / "logs")
    processes.kill(*processes.names())  # what a killed run left
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "disk").mkdir(parents=True)
    runtime = Runtime(directory, directory / "disk", processes)
    runtime.start()
    try:
        runtime.wait()
        for archive in archives:
            runtime.ctr("images", "import", str(archive))
    finally:
        processes.kill(runtime.name)
    (directory / "disk").rename(disk)
    shutil.rmtree(directory)


def _forget_old(disks: Path) -> None:
    """Every change of the sources makes another image, and so another disk of hundreds of megabytes."""
    for old in sorted(disks.glob("[0-9a-f]*"), key=lambda path: -path.stat().st_mtime)[_KEPT:]:
        shutil.rmtree(old)
