"""The worker of a recorded job: pulls, works, pushes, as every worker on parameter servers does. The environment says
how large the model is and what a step takes.

DENSE numbers are pulled and pushed whole, ROWS rows of 16 by their ids. A step waits OWN seconds (a device, a disk, a
network; JITTER is the spread of their logarithm) and computes for BURN processor seconds. SYNC=1: steps in lockstep.
"""

import os
import time

import numpy as np

from edl.trainer import Sparse, Trainer

DENSE, ROWS = int(os.environ.get("DENSE", "1")), int(os.environ.get("ROWS", "0"))
OWN, BURN = float(os.environ.get("OWN", "0")), float(os.environ.get("BURN", "0"))
JITTER, SYNC = float(os.environ.get("JITTER", "0")), os.environ.get("SYNC") == "1"
RECORDS, SHARD, BATCH, WIDTH = 10_000_000, 64, 64, 16


def work(rng: np.random.Generator) -> None:
    time.sleep(OWN * float(rng.lognormal(0.0, JITTER)))
    end = time.thread_time() + BURN
    matrix = rng.normal(size=(64, 64))
    while time.thread_time() < end:
        matrix = np.tanh(matrix @ matrix)


def main() -> None:
    rng = np.random.default_rng()
    gradient = np.full(DENSE, 1e-3, np.float32)
    with Trainer() as trainer:
        model = trainer.parameters(
            dense={"w": np.zeros(DENSE, np.float32)},
            sparse={"rows": Sparse(WIDTH)},
            optimizer="adam",
            learning_rate=1e-3,
            sync=SYNC,
        )
        for shard in trainer.shards(RECORDS, SHARD, 1, seed=1):
            for batch in shard.batches(BATCH):
                ids = rng.integers(0, 1_000_000, ROWS)
                model.pull()
                rows = model.pull_rows("rows", ids)
                work(rng)
                model.push({"w": gradient}, rows={"rows": (ids, 0.01 * rows)})
                trainer.report(loss=1.0, samples=len(batch))


if __name__ == "__main__":
    main()
