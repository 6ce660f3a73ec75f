"""The same training on spot instances that come and go as a trace says: samples committed per worker-second that was
available, as a share of a job that is never disturbed.

The trace (CSV: regime, t_s, event, nodes) is read from a path and is not part of the repository. Its hour and its 32
instances become minutes and at most eight workers; an instance that goes has as long a notice as 30 s are in the hour.
"""

import csv
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from bench.frameworks.changes import LARGE
from bench.frameworks.contenders.registry import CONTENDERS, TUNED, Contender
from bench.frameworks.job import Job
from bench.frameworks.stage import StuckError, staged

NODES, WORKERS, NOTICE = 32, 8, 30.0
LONGEST = 60.0  # seconds that the undisturbed job is looked at


@dataclass(frozen=True)
class Change:
    at: float
    workers: int


@dataclass(frozen=True)
class Share:
    """Samples per worker-second, and what was available."""

    rate: float
    worker_seconds: float
    samples: int


def read(path: Path, regime: str, seconds: float) -> tuple[list[Change], float]:
    """Sizes over so many seconds, and by how much time was compressed. The first is at 0; the last is the end."""
    present: set[str] = set()
    with path.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["regime"] == regime]
    if not rows or rows[-1]["event"] != "end":
        raise ValueError(f"{path} has no regime {regime!r} that ends")
    pace = seconds / float(rows[-1]["t_s"])
    changes: list[Change] = []
    for row in rows:
        names = set(row["nodes"].split())
        present = present | names if row["event"] == "add" else present - names
        workers = max(1, round(len(present) * WORKERS / NODES))
        if not changes or workers != changes[-1].workers or row["event"] == "end":
            changes.append(Change(float(row["t_s"]) * pace, min(WORKERS, workers)))
    return changes, pace


def available(changes: Sequence[Change]) -> float:
    """Worker-seconds."""
    return sum(one.workers * (after.at - one.at) for one, after in pairwise(changes))


def undisturbed(changes: Sequence[Change]) -> Share:
    """Plain DDP of as many workers as the trace has on average: on few cores more of them take longer for a sample."""
    plain = next(one for one in CONTENDERS if one.name == TUNED)
    seconds = changes[-1].at
    workers = round(available(changes) / seconds)
    return replay(plain, [Change(0.0, workers), Change(min(seconds, LONGEST), workers)], 1.0)


def replay(contender: Contender, changes: Sequence[Change], pace: float) -> Share:
    with staged(contender, LARGE.workload, changes[0].workers) as job:
        began = time.monotonic()
        for change in changes[1:-1]:
            _sleep(job, began + change.at)
            job.resize(change.workers, grace=NOTICE * pace)
        _sleep(job, began + changes[-1].at)
        samples = job.ledger.committed(began, began + changes[-1].at)
    seconds = available(changes)
    return Share(samples / seconds, seconds, samples)


def _sleep(job: Job, until: float) -> None:
    while (left := until - time.monotonic()) > 0:
        job.reap()
        time.sleep(min(0.1, left))


def compare(contenders: Sequence[Contender], trace: Path, regimes: Sequence[str], seconds: float) -> Iterator[str]:
    for regime in regimes:
        changes, pace = read(trace, regime, seconds)
        yield f"{regime}: {len(changes) - 2} changes in {seconds:g} s, {available(changes):.0f} worker-seconds"
        still = undisturbed(changes)
        yield f"  {'never disturbed':<20} {1:6.1%}  {_shown(still)}"
        for contender in contenders:
            if reason := contender.reason_against():
                yield f"  {contender.name:<20} cannot run: {reason}"
                continue
            try:
                found = replay(contender, changes, pace)
            except StuckError as error:
                yield f"  {contender.name:<20} did not begin to train: {error}"[:2000]
                continue
            yield f"  {contender.name:<20} {found.rate / still.rate:6.1%}  {_shown(found)}"


def _shown(share: Share) -> str:
    return f"({share.samples} samples, {share.rate:.1f} per worker-second)"
