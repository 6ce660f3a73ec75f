"""The worker of a recorded job: pulls, works, pushes, as every worker on parameter servers does. The environment says
how large the model is and what a step takes.

DENSE numbers are pulled and pushed whole, ROWS rows of 16 by their ids. A step waits OWN seconds (a device, a disk, a
network; JITTER is the spread of their logarithm) and computes for BURN processor seconds. SYNC=1: steps in lockstep.
SHARED seconds of it are for one worker at a time.
GANG=k: only whole groups of k workers train, the others wait until theirs is whole; before the first is, one trains.
"""

import fcntl
import os
import time
from pathlib import Path
from typing import IO

import numpy as np

from edl.trainer import Sparse, Trainer

DENSE, ROWS = int(os.environ.get("DENSE", "1")), int(os.environ.get("ROWS", "0"))
OWN, BURN = float(os.environ.get("OWN", "0")), float(os.environ.get("BURN", "0"))
JITTER, SYNC = float(os.environ.get("JITTER", "0")), os.environ.get("SYNC") == "1"
SHARED = float(os.environ.get("SHARED", "0"))
GANG, FOLDER = int(os.environ.get("GANG", "1")), Path(os.environ["FOLDER"])
HERE = 2.0  # seconds for which a worker that was seen is believed to be there
RECORDS, SHARD, BATCH, WIDTH = 10_000_000, 64, 64, 16


def work(rng: np.random.Generator, queue: IO[str]) -> None:
    time.sleep(OWN * float(rng.lognormal(0.0, JITTER)))
    burn(rng, BURN)
    if SHARED:
        fcntl.flock(queue, fcntl.LOCK_EX)
        time.sleep(SHARED)
        fcntl.flock(queue, fcntl.LOCK_UN)


def burn(rng: np.random.Generator, seconds: float) -> None:
    end = time.thread_time() + seconds
    matrix = rng.normal(size=(64, 64))
    while time.thread_time() < end:
        matrix = np.tanh(matrix @ matrix)


def join_gang() -> None:
    """Returns when this worker may train, by its place among those that are there."""
    own = FOLDER / f"gang-{os.environ['EDL_POD_NAME']}"
    while True:
        own.touch()
        seen = sorted(file.name for file in FOLDER.glob("gang-*") if time.time() - file.stat().st_mtime < HERE)
        if own.name in seen and seen.index(own.name) < max(1, len(seen) // GANG * GANG):
            return
        time.sleep(0.1)


def main() -> None:
    rng = np.random.default_rng()
    gradient = np.full(DENSE, 1e-3, np.float32)
    with (FOLDER / "queue").open("w") as queue, Trainer() as trainer:
        model = trainer.parameters(
            dense={"w": np.zeros(DENSE, np.float32)},
            sparse={"rows": Sparse(WIDTH)},
            optimizer="adam",
            learning_rate=1e-3,
            sync=SYNC,
        )
        for shard in trainer.shards(RECORDS, SHARD, 1, seed=1):
            for batch in shard.batches(BATCH):
                if GANG > 1:
                    join_gang()
                ids = rng.integers(0, 1_000_000, ROWS)
                model.pull()
                rows = model.pull_rows("rows", ids)
                work(rng, queue)
                model.push({"w": gradient}, rows={"rows": (ids, 0.01 * rows)})
                trainer.report(loss=1.0, samples=len(batch))


if __name__ == "__main__":
    main()
