"""A job of some contender: started, resized and killed in the same words; what it did is in its ledger.

`Processes` is one whose pods are processes of this machine, each with an agent or a worker of its own.
"""

import abc
import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from bench.frameworks.ledger import Ledger

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(__file__).with_name("scripts")
GRACE = 20.0  # seconds that a pod has to leave


@dataclass(frozen=True)
class Workload:
    """The options of the script; see `scripts/workload.py`."""

    sample_ms: float = 3.0
    batch: int = 96
    samples: int = 960
    width: int = 690
    frozen: int = 0
    every: int = 50
    shares: int = 3
    most: int = 4
    """Workers that there can be."""

    def words(self, folder: Path) -> list[str]:
        named: dict[str, object] = {"trace": folder / "trace", "checkpoint": folder / "saved"}
        named |= {"sample-ms": self.sample_ms, "batch": self.batch, "samples": self.samples, "width": self.width}
        named |= {"every": self.every, "shares": self.shares}
        named |= {"frozen": self.frozen} if self.frozen else {}
        return [word for name, value in named.items() for word in (f"--{name}", str(value))]


class Job(abc.ABC):
    """The first pod is never asked to leave nor killed: some contenders do not survive that."""

    def __init__(self, folder: Path, workload: Workload) -> None:
        self.folder, self.workload = folder, workload
        (folder / "trace").mkdir()
        self.ledger = Ledger(folder / "trace")

    @abc.abstractmethod
    def start(self, count: int) -> None: ...

    @abc.abstractmethod
    def resize(self, count: int, grace: float = GRACE) -> None:
        """Pods join, or the newest are asked to leave; whoever has not after a time is killed."""

    @abc.abstractmethod
    def kill(self, count: int = 1) -> None:
        """The newest pods, with all that runs in them, at once."""

    @abc.abstractmethod
    def close(self) -> None: ...

    @abc.abstractmethod
    def reap(self) -> None:
        """Kills who should have left by now. Called now and then."""

    def logs(self) -> str:
        """The ends of what its processes printed."""
        return "\n".join(f"== {file.name}\n{file.read_text()[-3000:]}" for file in sorted(self.folder.glob("*.log")))


class Processes(Job):
    def __init__(self, folder: Path, workload: Workload) -> None:
        super().__init__(folder, workload)
        self.pods: dict[str, subprocess.Popen[bytes]] = {}
        self._leaving: list[tuple[float, subprocess.Popen[bytes]]] = []
        self._count = 0

    @abc.abstractmethod
    def command(self, pod: str) -> tuple[Sequence[str], Mapping[str, str]]:
        """What runs in a pod, and its environment besides."""

    def planned(self, count: int) -> None:
        """Whoever plans the job is told its size, before pods come and when they go."""

    def start(self, count: int) -> None:
        self._add(count)

    def resize(self, count: int, grace: float = GRACE) -> None:
        self.reap()
        if count > len(self.pods):
            self._add(count - len(self.pods))
            return
        self.planned(count)
        for name in self._newest(len(self.pods) - count):
            process = self.pods.pop(name)
            process.terminate()
            self._leaving.append((time.monotonic() + grace, process))

    def kill(self, count: int = 1) -> None:
        for name in self._newest(count):
            kill_tree(self.pods.pop(name))
        self.planned(len(self.pods))

    def reap(self) -> None:
        left = self._leaving
        self._leaving = [(end, process) for end, process in left if process.poll() is None and time.monotonic() < end]
        for entry in left:
            if entry not in self._leaving:
                kill_tree(entry[1])

    def close(self) -> None:
        for process in (*self.pods.values(), *(process for _, process in self._leaving)):
            kill_tree(process)

    def _add(self, count: int) -> None:
        self.planned(len(self.pods) + count)
        for _ in range(count):
            name = f"w{self._count}"
            self._count += 1
            words, env = self.command(name)
            self.pods[name] = self.run(name, words, env)

    def run(self, name: str, words: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(words, env=environment(env), stdout=log, stderr=subprocess.STDOUT, cwd=self.folder)

    def _newest(self, count: int) -> list[str]:
        return list(self.pods)[1:][-count:] if count else []


def environment(more: Mapping[str, str]) -> dict[str, str]:
    """Of a process of a contender: one thread each, and the scripts can be imported."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {**kept, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **more}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def kill_tree(process: subprocess.Popen[bytes]) -> None:
    """With all below it."""
    with contextlib.suppress(psutil.NoSuchProcess):
        agent = psutil.Process(process.pid)
        for one in (agent, *agent.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                one.send_signal(signal.SIGKILL)
    process.wait()
