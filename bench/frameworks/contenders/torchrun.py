"""torchrun's own rendezvous: as it comes, and tuned as well as is known."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.frameworks.job import SCRIPTS, Processes, Workload, free_port

TUNED = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=3"
OWN_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
"""torchrun keeps one store for all rounds, in which workers find what those before them left, and may be stuck."""


class Torchrun(Processes):
    conf = ""
    env: Mapping[str, str] = {}

    def __init__(self, folder: Path, workload: Workload) -> None:
        super().__init__(folder, workload)
        self._endpoint = f"127.0.0.1:{free_port()}"

    def command(self, pod: str) -> tuple[Sequence[str], Mapping[str, str]]:
        host = f"is_host={int(pod == 'w0')}"  # else any of them may hold the store, and take all others along
        env = {
            **self.env,
            "PET_RDZV_BACKEND": "c10d",
            "PET_RDZV_ENDPOINT": self._endpoint,
            "PET_RDZV_ID": "job",
            "PET_RDZV_CONF": ",".join(filter(None, (self.conf, host))),
            "PET_NNODES": f"1:{self.workload.most}",
            "PET_MAX_RESTARTS": "1000",
        }
        script = str(SCRIPTS / "ddp.py")
        return [sys.executable, "-m", "torch.distributed.run", script, *self.workload.words(self.folder)], env


class TunedTorchrun(Torchrun):
    conf = TUNED
    env = OWN_STORE
