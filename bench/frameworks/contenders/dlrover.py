"""DLRover: its local master, and every pod an agent (`dlrover-run`) of one worker; the last call lasts a second."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.frameworks.contenders.peers import interpreter
from bench.frameworks.job import SCRIPTS, Processes, Workload, free_port, kill_tree


class Dlrover(Processes):
    def __init__(self, folder: Path, workload: Workload) -> None:
        super().__init__(folder, workload)
        self._port = free_port()
        options = {"port": self._port, "node_num": workload.most, "job_name": "bench", "platform": "local"}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        module = ["-m", "dlrover.python.master.main"]
        self._master = self.run("master", [str(interpreter()), "-W", "ignore", *module, *words], {})

    def command(self, pod: str) -> tuple[Sequence[str], Mapping[str, str]]:
        number = pod.removeprefix("w")
        env = {
            "DLROVER_MASTER_ADDR": f"127.0.0.1:{self._port}",
            "ELASTIC_JOB_NAME": "bench",
            "NODE_TYPE": "worker",
            "NODE_ID": number,
            "NODE_RANK": number,
            "NODE_NUM": str(self.workload.most),
            "POD_NAME": pod,
            "MY_POD_IP": "127.0.0.1",
        }
        rendezvous = ["--rdzv_conf", "join_timeout=600,lastcall_timeout=1"]
        size = [f"--nnodes=1:{self.workload.most}", "--nproc_per_node=1", "--max_restarts=1000"]
        run = [str(interpreter()), "-W", "ignore", "-m", "dlrover.trainer.torch.main", *size, *rendezvous]
        return [*run, str(SCRIPTS / "ddp.py"), *self.workload.words(self.folder)], env

    def close(self) -> None:
        super().close()
        kill_tree(self._master)
