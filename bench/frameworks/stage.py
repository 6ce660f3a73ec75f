"""One job of a contender in a folder of its own, and waiting for what it does."""

import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.frameworks.contenders.registry import Contender
from bench.frameworks.job import Job, Workload

START = 900.0
"""Seconds after which a job that did not begin to train is given up. On a busy machine imports take minutes."""
STUCK = 100.0
"""The same for a change: twice what torchrun's own timeouts add up to."""


class StuckError(Exception):
    """Training did not come back."""


@contextlib.contextmanager
def staged(contender: Contender, workload: Workload, workers: int, settle: int = 10) -> Iterator[Job]:
    """A job that trains with so many."""
    with tempfile.TemporaryDirectory(prefix="edl-bench-") as folder:
        job = contender.job(Path(folder), workload)
        try:
            since = time.monotonic()
            job.start(workers)
            wait(job, workers, since, settle, START)
            yield job
        finally:
            job.close()


def wait(job: Job, workers: int, since: float, steps: int, patience: float = STUCK) -> None:
    end = time.monotonic() + patience
    while job.ledger.count(workers, since) < steps:
        if time.monotonic() > end:
            raise StuckError(f"no {steps} steps of {workers} workers within {patience:g} s\n{job.logs()}")
        job.reap()
        time.sleep(0.05)
