"""How long training stops when workers join, leave or are killed, what it loses, and whether samples are exact."""

import statistics
import time
from dataclasses import dataclass, field

from bench.frameworks.contenders.registry import Contender
from bench.frameworks.job import Job, Workload
from bench.frameworks.ledger import Pause
from bench.frameworks.stage import StuckError, staged, wait

EVENTS = ("join", "leave", "kill")
SETTLE = 25  # steps between changes: epochs end, and a checkpoint is neither new nor old


@dataclass(frozen=True)
class Size:
    """Between how many workers. With more workers a sample takes longer, so that a step does not get too short for a
    machine of few cores."""

    few: int
    many: int
    sample_ms: float

    @property
    def workload(self) -> Workload:
        return Workload(sample_ms=self.sample_ms, shares=self.many, most=max(4, self.many))


SMALL, LARGE = Size(2, 3, 3.0), Size(4, 8, 12.0)


@dataclass
class Found:
    """Of one contender, over all rounds."""

    pauses: dict[str, list[Pause]] = field(default_factory=lambda: {event: [] for event in EVENTS})
    stuck: list[str] = field(default_factory=list)
    """Events after which training did not come back."""
    repeated: int = 0
    missing: int = 0
    rounds: int = 0

    def median(self, event: str) -> float | None:
        pauses = self.pauses[event]
        return statistics.median(one.seconds for one in pauses) if pauses else None

    def median_steps(self, event: str) -> float | None:
        pauses = self.pauses[event]
        return statistics.median(one.steps for one in pauses) if pauses else None

    def lost(self, event: str) -> list[int]:
        return [one.lost for one in self.pauses[event]]


def play(contender: Contender, size: Size, found: Found) -> None:
    """One round: a change of each kind, as far as they get."""
    found.rounds += 1
    event = "start"
    try:
        with staged(contender, size.workload, size.many) as job:
            for event in ("kill", "join", "leave"):
                found.pauses[event].append(_change(job, event, size))
            repeated, missing = job.ledger.samples(job.workload.samples)
            found.repeated += repeated
            found.missing += missing
    except StuckError as error:
        found.stuck.append(event)
        print(f"{contender.name}: {event}: {error}"[:2000], flush=True)


def _change(job: Job, event: str, size: Size) -> Pause:
    before, after = (size.few, size.many) if event == "join" else (size.many, size.few)
    wait(job, before, time.monotonic(), SETTLE)
    since = time.monotonic()
    if event == "kill":
        job.kill(before - after)
    else:
        job.resize(after)
    wait(job, after, since, SETTLE)
    return job.ledger.pause(since, before, after)
