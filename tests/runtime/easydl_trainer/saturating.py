"""A worker whose job saturates: each shard takes OWN seconds of its own, then SHARED seconds of a thing that serves one
worker at a time (a lock on a file). So (OWN + SHARED) / SHARED workers are as fast as any more.

With NEEDS=MiB it really takes that much memory. With COUNT=1 every record adds one to a parameter of its own, and the
last line of the ledger says what the parameters are: each must be the number of epochs. Every shard then also moves one
number towards 1 by a hundredth of what is missing: its loss, squared, says how many shards were learned and stayed so.
Once the file RELEASE is there, shards take no time any more.
"""

import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from edl.trainer import Acknowledgement, Parameters, Shard, Sparse, Trainer

OWN, SHARED = float(os.environ.get("OWN", "0.25")), float(os.environ.get("SHARED", "0.05"))
RECORDS, SIZE = int(os.environ.get("RECORDS", "100000")), int(os.environ.get("SIZE", "10"))
EPOCHS = int(os.environ.get("EPOCHS", "1"))
NEEDS = int(os.environ.get("NEEDS", "0"))
COUNT = os.environ.get("COUNT") == "1"
FOLDER = Path(os.environ["FOLDER"])
RELEASE = FOLDER / "release"
RATE = 0.01


def note(kind: str, **more: Any) -> None:
    line = {"kind": kind, "pod": os.environ["EDL_POD_NAME"], "pid": os.getpid(), **more}
    with open(os.environ["LEDGER"], "ab", buffering=0) as ledger:
        ledger.write(json.dumps(line).encode() + b"\n")


def acknowledged(news: Acknowledgement) -> None:
    note("acknowledged", era=news.task.era, epoch=news.task.pass_index, shard=news.task.chunk, counted=news.counted)


def work(queue: Any) -> None:
    time.sleep(OWN)
    fcntl.flock(queue, fcntl.LOCK_EX)
    time.sleep(SHARED)
    fcntl.flock(queue, fcntl.LOCK_UN)


def learn(shard: Shard, model: Parameters) -> float:
    """The loss before this shard."""
    missing = 1.0 - float(model.pull()["w"][0])
    records = shard.records
    model.push({"w": [-RATE * missing]}, {"count": (records, -np.ones((len(records), 1)))})
    return missing**2


def main() -> None:
    ballast = np.ones(NEEDS << 17)  # 8 bytes each, touched
    with (FOLDER / "queue").open("w") as queue, Trainer(on_done=acknowledged) as trainer:
        model = None
        if COUNT:
            model = trainer.parameters(
                dense={"w": np.zeros(1)}, sparse={"count": Sparse(1, scale=0.0)}, optimizer="sgd", learning_rate=1.0
            )
        for shard in trainer.shards(RECORDS, SIZE, EPOCHS, seed=1):
            if not RELEASE.exists():
                work(queue)
            loss = learn(shard, model) if model is not None else 1.0
            trainer.report(loss=loss, samples=len(shard.records))
            note("trained", epoch=shard.epoch, shard=shard.number, void=shard.task.void, loss=loss)
        if model is not None:
            counts = model.pull_rows("count", range(RECORDS))[:, 0]
            note("end", least=float(counts.min()), most=float(counts.max()))
    assert len(ballast) == NEEDS << 17


if __name__ == "__main__":
    main()
