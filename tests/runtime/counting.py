"""A training script that can be checked to the last update: every task adds one to things that must end up exact.

Each step of a task pushes -1 at a learning rate of 1, so that `total` counts all steps and the row of a chunk counts
the passes over it. The ledger says what was trained and what was acknowledged; the last line of a trainer that sees the
end says what the parameters are. With HOLD=n, chunk n and all that follow wait for the file RELEASE; when it is there,
tasks take no time any more.
"""

import json
import os
import time
from typing import Any

import numpy as np

from edl.trainer import Acknowledgement, Sparse, Task, Trainer

CHUNKS = int(os.environ.get("CHUNKS", "12"))
STEPS = int(os.environ.get("STEPS", "2"))
SECONDS = float(os.environ.get("SECONDS", "0.02"))
OPTIMIZER = os.environ.get("OPTIMIZER", "sgd")
SYNC = os.environ.get("SYNC", "") == "1"
HOLD, RELEASE = os.environ.get("HOLD", ""), os.environ.get("RELEASE", "")
SIZE = int(os.environ.get("SIZE", "3"))


def note(kind: str, task: Task | None = None, **more: Any) -> None:
    line = {"kind": kind, "pod": os.environ["EDL_POD_NAME"], "pid": os.getpid(), **more}
    if task:
        line |= {"era": task.era, "pass": task.pass_index, "chunk": task.chunk, "void": task.void}
    with open(os.environ["LEDGER"], "ab", buffering=0) as ledger:
        ledger.write(json.dumps(line).encode() + b"\n")


def hold(task: Task) -> None:
    """So that a test can act in the middle of a job, however slow the machine is."""
    while HOLD and (task.pass_index or task.chunk >= int(HOLD)) and not os.path.exists(RELEASE):
        time.sleep(0.01)


def acknowledged(news: Acknowledgement) -> None:
    note("acknowledged", news.task, counted=news.counted, checkpoint=news.checkpoint)


def main() -> None:
    with Trainer(on_done=acknowledged, grace=float(os.environ.get("GRACE", "20"))) as trainer:
        model = None
        if os.environ.get("PARAMETERS", "1") == "1":
            model = trainer.parameters(
                dense={"total": np.zeros(SIZE)},
                sparse={"rows": Sparse(1, scale=0.0)},
                optimizer=OPTIMIZER,
                learning_rate=1.0,
                sync=SYNC,
            )
        note("ready")
        for task in trainer.tasks(chunks=CHUNKS):
            note("started", task)
            hold(task)
            if os.environ.get("POISON") == str(task.chunk):
                raise ValueError(f"chunk {task.chunk} cannot be read")
            for step in range(STEPS):
                time.sleep(0 if os.path.exists(RELEASE) else SECONDS / STEPS)
                if model:
                    model.pull()
                    rows = {"rows": ([task.chunk], [[-1.0]])} if step == 0 else None
                    model.push({"total": -np.ones(SIZE)}, rows)
            trainer.report(loss=1.0, samples=1)
            note("trained", task)
        if model:
            seen = model.pull_rows("rows", range(CHUNKS))
            note("end", total=model.pull()["total"].tolist()[:3], rows=seen[:, 0].tolist())
        else:
            note("end")


if __name__ == "__main__":
    main()
