"""What a step costs two workers of one thread each, beside plain DistributedDataParallel: wall and CPU time."""

import math
import statistics
from dataclasses import dataclass, field

from bench.frameworks.contenders.registry import Contender
from bench.frameworks.job import Workload
from bench.frameworks.stage import START, StuckError, staged, wait

WORKLOAD = Workload(sample_ms=0.0, batch=512, samples=51_200, every=1_000_000, shares=2)
WARM = 30


@dataclass
class Cost:
    """Milliseconds a step, by round."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def ratios(self, plain: "Cost") -> tuple[list[float], list[float]]:
        """To plain DDP of the same round."""
        pairs = ((self.wall, plain.wall), (self.cpu, plain.cpu))
        wall, cpu = ([one / other for one, other in zip(*pair, strict=False)] for pair in pairs)
        return wall, cpu


def measure(contender: Contender, steps: int, cost: Cost) -> None:
    try:
        with staged(contender, WORKLOAD, 2, settle=1) as job:
            wait(job, 2, 0.0, WARM + steps + 1, START)
            wall, cpu = job.ledger.cost(WARM, WARM + steps)
            cost.wall.append(wall * 1000)
            cost.cpu.append(cpu * 1000)
    except StuckError as error:
        cost.wall.append(math.nan)
        cost.cpu.append(math.nan)
        print(f"{contender.name}: step cost: {error}"[:2000], flush=True)


def median(values: list[float]) -> float:
    """Of rounds that came to an end."""
    known = [value for value in values if not math.isnan(value)]
    return statistics.median(known) if known else math.nan


def shown(values: list[float]) -> str:
    """Median and spread."""
    known = [value for value in values if not math.isnan(value)]
    return f"{median(known):.2f} [{min(known):.2f}..{max(known):.2f}]" if known else "-"
