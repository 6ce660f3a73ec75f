"""All contenders, in the order of the table."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.frameworks.contenders.dlrover import Dlrover
from bench.frameworks.contenders.ours import InMemory, InPlace, Restart
from bench.frameworks.contenders.peers import reason_against
from bench.frameworks.contenders.ray_train import RayTrain
from bench.frameworks.contenders.torchft import Torchft
from bench.frameworks.contenders.torchrun import Torchrun, TunedTorchrun
from bench.frameworks.job import Job, Workload


@dataclass(frozen=True)
class Contender:
    name: str
    job: Callable[[Path, Workload], Job]
    large: bool = False
    """It takes part in changes between four and eight workers."""
    needs: str = ""
    """A module of the peers' virtualenv."""

    def reason_against(self) -> str:
        return reason_against(self.needs) if self.needs else ""


PLAIN, TUNED, IN_PLACE = "torchrun", "torchrun, tuned", "edl, in place"
CONTENDERS = (
    Contender(PLAIN, Torchrun),
    Contender(TUNED, TunedTorchrun, large=True),
    Contender("edl, restart", Restart, large=True),
    Contender("edl, Checkpointer", InMemory, large=True),
    Contender(IN_PLACE, InPlace, large=True),
    Contender("torchft 0.2", Torchft, needs="torchft"),
    Contender("Ray Train 2.60", RayTrain, needs="ray.train.torch"),
    Contender("DLRover 0.6", Dlrover, needs="dlrover.trainer.torch.elastic_run"),
)
