"""A worker whose job saturates: each shard takes OWN seconds of its own, then SHARED seconds of a thing that serves one
worker at a time (a lock on a file). So (OWN + SHARED) / SHARED workers are as fast as any more.

With NEEDS=MiB it really takes that much memory. With COUNT=1 every record adds one to a parameter of its own, and the
last line of the ledger says what the parameters are: each must be the number of epochs.
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


def note(kind: str, **more: Any) -> None:
    line = {"kind": kind, "pod": os.environ["EDL_POD_NAME"], "pid": os.getpid(), **more}
    with open(os.environ["LEDGER"], "ab", buffering=0) as ledger:
        ledger.write(json.dumps(line).encode() + b"\n")


def acknowledged(news: Acknowledgement) -> None:
    note("acknowledged", era=news.task.era, epoch=news.task.pass_index, shard=news.task.chunk, counted=news.counted)


def train(shard: Shard, model: Parameters | None, queue: Any) -> None:
    time.sleep(OWN)
    fcntl.flock(queue, fcntl.LOCK_EX)
    time.sleep(SHARED)
    fcntl.flock(queue, fcntl.LOCK_UN)
    if model is not None:
        records = shard.records
        model.push(rows={"count": (records, -np.ones((len(records), 1)))})


def main() -> None:
    ballast = np.ones(NEEDS << 17)  # 8 bytes each, touched
    with (FOLDER / "queue").open("w") as queue, Trainer(on_done=acknowledged) as trainer:
        model = None
        if COUNT:
            model = trainer.parameters(sparse={"count": Sparse(1, scale=0.0)}, optimizer="sgd", learning_rate=1.0)
        for shard in trainer.shards(RECORDS, SIZE, EPOCHS, seed=1):
            train(shard, model, queue)
            trainer.report(loss=1.0 / (1 + shard.epoch), samples=len(shard.records))
            note("trained", epoch=shard.epoch, shard=shard.number, void=shard.task.void)
        if model is not None:
            counts = model.pull_rows("count", range(RECORDS))[:, 0]
            note("end", least=float(counts.min()), most=float(counts.max()))
    assert len(ballast) == NEEDS << 17


if __name__ == "__main__":
    main()
