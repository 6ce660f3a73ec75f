"""Our three ways: a restart with warm workers, one with checkpoints in memory, and a change in place."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.frameworks.job import SCRIPTS, Processes, Workload
from tests.tier_frameworks.torchrun.group import Leader


class Restart(Processes):
    """The plain script under our rendezvous."""

    script = "ddp.py"

    def __init__(self, folder: Path, workload: Workload) -> None:
        super().__init__(folder, workload)
        self._leader = Leader()

    def command(self, pod: str) -> tuple[Sequence[str], Mapping[str, str]]:
        env = {
            **self._leader.environment(pod),
            "PET_RDZV_BACKEND": "edl",
            "PET_RDZV_ID": "u-1",
            "PET_NNODES": f"1:{self.workload.most}",
            "PET_MAX_RESTARTS": "0",
        }
        script = str(SCRIPTS / self.script)
        return [sys.executable, "-m", "torch.distributed.run", script, *self.workload.words(self.folder)], env

    def planned(self, count: int) -> None:
        self._leader.edit(target=count)

    def close(self) -> None:
        super().close()
        self._leader.close()


class InMemory(Restart):
    script = "checkpointer.py"


class InPlace(Restart):
    script = "in_place.py"

    def sent(self, workers: int) -> int | None:
        """Bytes of state that newcomers received in the pause, of the last change; None if it was not one to so many
        workers, or they have not told of it yet."""
        change = self._leader.change
        return change.sent if change is not None and change.after == workers else None
