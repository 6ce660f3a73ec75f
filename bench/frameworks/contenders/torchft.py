"""torchft: a lighthouse beside the job, and every pod a replica of one worker. Timeouts are those of its README."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.frameworks.contenders.peers import interpreter
from bench.frameworks.job import SCRIPTS, Processes, Workload, free_port, kill_tree


class Torchft(Processes):
    def __init__(self, folder: Path, workload: Workload) -> None:
        super().__init__(folder, workload)
        port = free_port()
        self._address = f"http://127.0.0.1:{port}"
        options = {"bind": f"[::]:{port}", "min_replicas": 1, "quorum_tick_ms": 100, "join_timeout_ms": 10_000}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        lighthouse = interpreter().with_name("torchft_lighthouse")
        self._lighthouse = self.run("lighthouse", [str(interpreter()), str(lighthouse), *words], {})
        self._shares: dict[str, int] = {}

    def command(self, pod: str) -> tuple[Sequence[str], Mapping[str, str]]:
        taken = {share for name, share in self._shares.items() if name in self.pods}
        self._shares[pod] = min(set(range(len(taken) + 1)) - taken)
        env = {"TORCHFT_LIGHTHOUSE": self._address, "REPLICA": str(self._shares[pod])}
        words = self.workload.words(self.folder)
        return [str(interpreter()), "-W", "ignore", str(SCRIPTS / "torchft_replica.py"), *words], env

    def close(self) -> None:
        super().close()
        kill_tree(self._lighthouse)
