"""Linear regression, or a small network with HIDDEN > 0, on made-up data; the first job to try.

Runs alone (`python train.py`) and, unchanged, as the trainer of a TrainingJob. Everything below the environment
variables is what a training script looks like. With LEDGER=FILE it appends a line per task that it trained and per task
that was acknowledged, so that a test can compare.
"""

import json
import os
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edl.trainer import Acknowledgement, Task, Trainer

SAMPLES = int(os.environ.get("SAMPLES", "8192"))
FEATURES = int(os.environ.get("FEATURES", "13"))
HIDDEN = int(os.environ.get("HIDDEN", "0"))
CHUNKS = int(os.environ.get("CHUNKS", "64"))
BATCH = int(os.environ.get("BATCH", "32"))
LEARNING_RATE = float(os.environ.get("LEARNING_RATE", "0.01"))
OPTIMIZER = os.environ.get("OPTIMIZER", "adam")
SYNC = os.environ.get("SYNC", "0") == "1"
SECONDS_PER_TASK = float(os.environ.get("SECONDS_PER_TASK", "0"))  # as if the data were larger
LEDGER = os.environ.get("LEDGER", "")

Array = NDArray[np.float32]


def make_data() -> tuple[Array, Array]:
    """The same for every trainer: what differs between them is which chunks they are given."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(SAMPLES, FEATURES)).astype(np.float32)
    y = x @ rng.normal(size=FEATURES).astype(np.float32) + 3.0
    return x, (y + 0.1 * rng.normal(size=SAMPLES)).astype(np.float32)


def first_values() -> dict[str, Array]:
    rng, width = np.random.default_rng(1), HIDDEN or FEATURES
    values = {"w": np.zeros((width, 1), np.float32), "b": np.zeros(1, np.float32)}
    if HIDDEN:
        values["w"] = (rng.normal(size=(HIDDEN, 1)) / HIDDEN**0.5).astype(np.float32)
        values["w1"] = (rng.normal(size=(FEATURES, HIDDEN)) / FEATURES**0.5).astype(np.float32)
        values["b1"] = np.zeros(HIDDEN, np.float32)
    return values


def gradients(values: dict[str, Array], x: Array, y: Array) -> tuple[float, dict[str, Array]]:
    hidden = np.maximum(x @ values["w1"] + values["b1"], 0) if HIDDEN else x
    error = (hidden @ values["w"])[:, 0] + values["b"][0] - y
    push = 2 * error[:, None] / len(y)
    grads = {"w": hidden.T @ push, "b": push.sum(axis=0)}
    if HIDDEN:
        back = (push @ values["w"].T) * (hidden > 0)
        grads |= {"w1": x.T @ back, "b1": back.sum(axis=0)}
    return float(np.mean(error**2)), grads


def note(kind: str, task: Task, **more: Any) -> None:
    if LEDGER:
        line = {"kind": kind, "pid": os.getpid(), "era": task.era, "pass": task.pass_index, "chunk": task.chunk, **more}
        with open(LEDGER, "ab", buffering=0) as ledger:
            ledger.write(json.dumps(line).encode() + b"\n")


def acknowledged(news: Acknowledgement) -> None:
    note("acknowledged", news.task, counted=news.counted, checkpoint=news.checkpoint)


def main() -> None:
    x, y = make_data()
    with Trainer(on_done=acknowledged) as trainer:
        model = trainer.parameters(dense=first_values(), optimizer=OPTIMIZER, learning_rate=LEARNING_RATE, sync=SYNC)
        for task in trainer.tasks(chunks=CHUNKS):
            part = task.part(SAMPLES)
            for start in range(part.start, part.stop, BATCH):
                batch = slice(start, min(start + BATCH, part.stop))
                loss, grads = gradients(model.pull(), x[batch], y[batch])
                model.push(grads)
                trainer.report(loss=loss, samples=batch.stop - batch.start)
                time.sleep(SECONDS_PER_TASK * BATCH * CHUNKS / SAMPLES)
            note("trained", task)
        loss, _ = gradients(model.pull(), x, y)
    print(f"trained {CHUNKS} chunks; mean squared error {loss:.4f}")


if __name__ == "__main__":
    main()
