"""Ray Train: a head without workers, a driver, and every pod a Ray node of one CPU. It looks for nodes every second."""

import contextlib
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.frameworks.contenders.peers import interpreter
from bench.frameworks.job import SCRIPTS, Processes, Workload, free_port, kill_tree


class RayTrain(Processes):
    def __init__(self, folder: Path, workload: Workload) -> None:
        super().__init__(folder, workload)
        self._address = f"127.0.0.1:{free_port()}"
        self._ray = [str(interpreter()), "-W", "ignore", str(interpreter().with_name("ray")), "start", "--block"]
        port = self._address.rpartition(":")[2]
        own = ["--head", f"--port={port}", "--num-cpus=0", "--include-dashboard=false", f"--temp-dir={folder}/ray"]
        self._head = self.run("head", [*self._ray, *own], _ENV)
        _wait_for(int(port))
        self._driver: subprocess.Popen[bytes] | None = None

    def start(self, count: int) -> None:
        super().start(count)
        words = [*self.workload.words(self.folder), "--least", "1", "--most", str(self.workload.most)]
        script = str(SCRIPTS / "ray_job.py")
        env = {**_ENV, "RAY_ADDRESS": self._address}
        self._driver = self.run("driver", [str(interpreter()), "-W", "ignore", script, *words], env)

    def command(self, pod: str) -> tuple[Sequence[str], Mapping[str, str]]:
        own = [f"--address={self._address}", "--num-cpus=1", f"--dashboard-agent-listen-port={free_port()}"]
        return [*self._ray, *own], _ENV

    def reap(self) -> None:
        """And starts nodes again that gave up, as a kubelet would: on a busy machine 30 s are too short for a start."""
        super().reap()
        for name, process in self.pods.items():
            if process.poll() is not None:
                self.pods[name] = self.run(name, *self.command(name))

    def close(self) -> None:
        for process in filter(None, (self._driver, self._head)):
            kill_tree(process)
        super().close()


def _wait_for(port: int) -> None:
    """A node that starts before the head listens gives up."""
    end = time.monotonic() + HEAD
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1.0):
            return
        time.sleep(0.1)


HEAD = 120.0  # seconds that the head has to start
_ENV = {"RAY_TRAIN_V2_ENABLED": "1", "RAY_DISABLE_IMPORT_WARNING": "1", "RAY_USAGE_STATS_ENABLED": "0"}
