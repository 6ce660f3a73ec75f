"""Click-through rate as an EasyDL job: records come in shards, embeddings live on parameter servers, nobody says how
many of anything there should be.

FIELDS categorical fields of CATEGORIES values each; a row of WIDTH numbers per value, and a dense layer that turns the
rows of a sample into a probability. Runs alone and, unchanged, as the worker of an ElasticJob (job.yaml). LEDGER=FILE:
a line per shard and per acknowledgement, for those who want to count.
"""

import json
import os
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edl.trainer import Acknowledgement, Sparse, Trainer

RECORDS = int(os.environ.get("RECORDS", "32768"))
SHARD = int(os.environ.get("SHARD", "512"))
EPOCHS = int(os.environ.get("EPOCHS", "2"))
BATCH = int(os.environ.get("BATCH", "128"))
CATEGORIES, WIDTH, FIELDS = 1000, 8, 4
SECONDS_PER_SHARD = float(os.environ.get("SECONDS_PER_SHARD", "0"))  # pretends that a batch takes longer
LEDGER = os.environ.get("LEDGER", "")

Array = NDArray[np.float32]
Ids = NDArray[np.int64]


def make_data() -> tuple[Ids, Array]:
    rng = np.random.default_rng(0)
    values = np.minimum(rng.geometric(0.01, size=(RECORDS, FIELDS)), CATEGORIES) - 1
    score = rng.normal(size=(FIELDS, CATEGORIES))[np.arange(FIELDS), values].sum(axis=1)
    clicks = rng.random(RECORDS) < 1 / (1 + np.exp(-score))
    return (values + np.arange(FIELDS) * 1_000_000_007).astype(np.int64), clicks.astype(np.float32)


def gradients(w: Array, rows: Array, clicks: Array) -> tuple[float, Array, Array]:
    """Logistic loss, and its gradients with respect to the dense layer and to the rows of every sample."""
    flat = rows.reshape(len(clicks), -1)
    chance = 1 / (1 + np.exp(-(flat @ w)))
    loss = -np.mean(np.where(clicks > 0, np.log(chance + 1e-7), np.log(1 - chance + 1e-7)))
    error = (chance - clicks) / len(clicks)
    return float(loss), flat.T @ error, np.outer(error, w).reshape(rows.shape)


def note(kind: str, **more: Any) -> None:
    if LEDGER:
        with open(LEDGER, "ab", buffering=0) as ledger:
            ledger.write(json.dumps({"kind": kind, "pid": os.getpid(), **more}).encode() + b"\n")


def acknowledged(news: Acknowledgement) -> None:
    note("acknowledged", epoch=news.task.pass_index, shard=news.task.chunk, counted=news.counted)


def main() -> None:
    ids, clicks = make_data()
    start = np.random.default_rng(1).normal(size=FIELDS * WIDTH).astype(np.float32)
    with Trainer(on_done=acknowledged) as trainer:
        model = trainer.parameters(
            dense={"w": start}, sparse={"embedding": Sparse(WIDTH, scale=0.05)}, optimizer="adam", learning_rate=0.02
        )
        for shard in trainer.shards(RECORDS, SHARD, EPOCHS, seed=1):
            batches = shard.batches(BATCH)
            for batch in batches:
                rows = model.pull_rows("embedding", ids[batch])
                loss, w, by_row = gradients(model.pull()["w"], rows, clicks[batch])
                model.push({"w": w}, rows={"embedding": (ids[batch], by_row.reshape(-1, WIDTH))})
                trainer.report(loss=loss, samples=len(batch))
                time.sleep(SECONDS_PER_SHARD / len(batches))
            note("trained", epoch=shard.epoch, shard=shard.number, void=shard.task.void)
        loss, *_ = gradients(model.pull()["w"], model.pull_rows("embedding", ids), clicks)
    mean = float(clicks.mean())
    guess = -(mean * np.log(mean) + (1 - mean) * np.log(1 - mean))
    note("end", loss=loss, guess=guess)
    print(f"trained {EPOCHS} epochs of {RECORDS} records; log loss {loss:.4f}, guessing the mean gives {guess:.4f}")


if __name__ == "__main__":
    main()
