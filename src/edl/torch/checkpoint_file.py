"""The whole state of the training in one file, written by the first rank every so many steps, whole or not at all.

It is for the loss of all workers; a change of members needs none. It is read before the first round is entered, and
counts only if nobody there has trained. A model that the workers of a pod share is gathered for it, by the first pod.
"""

import os
from pathlib import Path
from typing import Any

import torch

from edl.torch.engine import Engine
from edl.torch.state import TrainingState


def save(state: dict[str, Any], path: Path) -> None:
    """Beside first, then in place: whoever is killed here leaves the last one whole."""
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with beside.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def load(state: TrainingState, path: Path) -> None:
    if path.exists():
        state.load(torch.load(path, weights_only=False))  # our own file


def keep(engine: Engine, path: Path, every: int) -> None:
    """From now on."""

    def committed() -> None:
        rank = engine.world.rank
        if engine.state.cursor.step % every or rank >= engine.siblings.size:
            return
        state = engine.state.capture_whole()
        if rank == 0:
            save(state, path)

    engine.before_join.append(lambda: load(engine.state, path))
    engine.on_commit.append(committed)
