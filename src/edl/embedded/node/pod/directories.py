"""Files that a node keeps for a pod: one directory per uid, removed with the pod."""

import os
import shutil
from pathlib import Path

import msgspec


class PodDirectories(msgspec.Struct, frozen=True):
    root: Path

    @property
    def volumes(self) -> Path:
        return self.root / "volumes"

    @property
    def hosts(self) -> Path:
        return self.root / "hosts"

    @property
    def scratch(self) -> Path:
        """An empty directory: a new root is mounted there, in the pod's own namespace."""
        return self.root / "scratch"

    @property
    def mapped(self) -> Path:
        """Stands for `/` where mount paths cannot be mounted."""
        return self.root / "root"

    def termination_message(self, container: str) -> Path:
        return self.root / "containers" / container / "termination-log"

    def log(self, container: str, run: int) -> Path:
        return self.root / "containers" / container / f"{run}.log"

    def make(self) -> None:
        self.scratch.mkdir(parents=True, exist_ok=True)
        self.hosts.touch()

    def make_run(self, container: str, run: int) -> Path:
        """The log of a new run; of the ones before it, only the last is kept."""
        log = self.log(container, run)
        log.parent.mkdir(parents=True, exist_ok=True)
        for old in log.parent.glob("*.log*") if run > 1 else ():
            if int(old.name.split(".")[0]) < run - 1:
                old.unlink()
        message = self.termination_message(container)
        message.write_bytes(b"")
        message.chmod(0o666)
        return log

    def make_working_dir(self, container: str) -> Path:
        """For a container whose working directory is nowhere else: empty at every run, as a new image would be."""
        directory = self.root / "containers" / container / "work"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        return directory

    def remove(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)


def rewrite(path: Path, text: str) -> None:
    """New content in the very same file, which may be mounted elsewhere, and never an empty one in between."""
    data = text.encode()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.pwrite(descriptor, data, 0)
        os.truncate(descriptor, len(data))
    finally:
        os.close(descriptor)
