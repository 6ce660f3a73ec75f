"""Click-through rate with sparse features: an embedding per category that exists from the first time it is met.

Four categorical fields of CATEGORIES values each; a click is likelier for some values than for others. Each value has
a row of WIDTH numbers in the table `embedding`, and a dense layer turns the rows of a sample into a probability. Runs
alone and, unchanged, as the trainer of a TrainingJob. LEDGER=FILE: see fit_a_line.
"""

import json
import os
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edl.trainer import Acknowledgement, Sparse, Task, Trainer

SAMPLES = int(os.environ.get("SAMPLES", "32768"))
CATEGORIES = int(os.environ.get("CATEGORIES", "1000"))
WIDTH = int(os.environ.get("WIDTH", "8"))
CHUNKS = int(os.environ.get("CHUNKS", "64"))
BATCH = int(os.environ.get("BATCH", "128"))
LEARNING_RATE = float(os.environ.get("LEARNING_RATE", "0.02"))
OPTIMIZER = os.environ.get("OPTIMIZER", "adam")
SYNC = os.environ.get("SYNC", "0") == "1"
SECONDS_PER_TASK = float(os.environ.get("SECONDS_PER_TASK", "0"))
LEDGER = os.environ.get("LEDGER", "")
FIELDS = 4

Array = NDArray[np.float32]
Ids = NDArray[np.int64]


def make_data() -> tuple[Ids, Array]:
    rng = np.random.default_rng(0)
    values = np.minimum(rng.geometric(0.01, size=(SAMPLES, FIELDS)), CATEGORIES) - 1  # few values are most of the data
    taste = rng.normal(size=(FIELDS, CATEGORIES))
    score = taste[np.arange(FIELDS), values].sum(axis=1)
    clicks = rng.random(SAMPLES) < 1 / (1 + np.exp(-score))
    return (values + np.arange(FIELDS) * 1_000_000_007).astype(np.int64), clicks.astype(np.float32)


def gradients(w: Array, b: Array, rows: Array, clicks: Array) -> tuple[float, Array, Array, Array]:
    """Logistic loss, and its gradients with respect to the dense layer and to the rows of every sample."""
    flat = rows.reshape(len(clicks), -1)
    chance = 1 / (1 + np.exp(-(flat @ w + b[0])))
    loss = -np.mean(np.where(clicks > 0, np.log(chance + 1e-7), np.log(1 - chance + 1e-7)))
    error = (chance - clicks) / len(clicks)
    return float(loss), flat.T @ error, error.sum(keepdims=True), np.outer(error, w).reshape(rows.shape)


def note(kind: str, task: Task, **more: Any) -> None:
    if LEDGER:
        line = {"kind": kind, "pid": os.getpid(), "era": task.era, "pass": task.pass_index, "chunk": task.chunk, **more}
        with open(LEDGER, "ab", buffering=0) as ledger:
            ledger.write(json.dumps(line).encode() + b"\n")


def acknowledged(news: Acknowledgement) -> None:
    note("acknowledged", news.task, counted=news.counted, checkpoint=news.checkpoint)


def main() -> None:
    ids, clicks = make_data()
    start_w = np.random.default_rng(1).normal(size=FIELDS * WIDTH).astype(np.float32)
    with Trainer(on_done=acknowledged) as trainer:
        model = trainer.parameters(
            dense={"w": start_w, "b": np.zeros(1)},
            sparse={"embedding": Sparse(WIDTH, scale=0.05)},
            optimizer=OPTIMIZER,
            learning_rate=LEARNING_RATE,
            sync=SYNC,
        )
        for task in trainer.tasks(chunks=CHUNKS):
            part = task.part(SAMPLES)
            for start in range(part.start, part.stop, BATCH):
                batch = slice(start, min(start + BATCH, part.stop))
                dense, rows = model.pull(), model.pull_rows("embedding", ids[batch])
                loss, w, b, by_row = gradients(dense["w"], dense["b"], rows, clicks[batch])
                model.push({"w": w, "b": b}, rows={"embedding": (ids[batch], by_row.reshape(-1, WIDTH))})
                trainer.report(loss=loss, samples=batch.stop - batch.start)
                time.sleep(SECONDS_PER_TASK * BATCH * CHUNKS / SAMPLES)
            note("trained", task)
        dense, rows = model.pull(), model.pull_rows("embedding", ids)
        loss, *_ = gradients(dense["w"], dense["b"], rows, clicks)
    print(f"trained {CHUNKS} chunks; log loss {loss:.4f}, guessing the mean gives {_entropy(clicks):.4f}")


def _entropy(clicks: Array) -> float:
    mean = float(clicks.mean())
    return float(-(mean * np.log(mean) + (1 - mean) * np.log(1 - mean)))


if __name__ == "__main__":
    main()
