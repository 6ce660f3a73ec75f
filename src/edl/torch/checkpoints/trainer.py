"""Checkpoints in memory for the Trainer of Hugging Face: a callback that saves, and a folder for it to resume from.

    memory = elastic.TrainerCheckpoints("/data/run")
    trainer = Trainer(..., callbacks=[memory])
    trainer.train(resume_from_checkpoint=memory.resume())

What is resumed, and how the data is skipped, stays the Trainer's own. Needs transformers.
"""

import contextlib
import dataclasses
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from edl.torch.checkpoints.checkpointer import Checkpointer

_FILES = {"model": "pytorch_model.bin", "optimizer": "optimizer.pt", "scheduler": "scheduler.pt"}
_TRAINER = "trainer_state.json"


class _TrainerState:
    """Asked for its state only when a save is due: its history grows."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def state_dict(self) -> dict[str, Any]:
        return {"json": json.dumps(dataclasses.asdict(self._state), sort_keys=True)}


class TrainerCheckpoints(TrainerCallback):  # type: ignore[misc]  # transformers is not installed where types are checked
    """Takes the options of a `Checkpointer`."""

    def __init__(self, path: str | Path, **options: Any) -> None:
        self._checkpoints = Checkpointer(path, **options)
        self._folder: str | None = None

    def resume(self) -> str | None:
        """A folder with the newest checkpoint as the Trainer reads it, for this process alone; None if there is none.
        Make the Trainer first: it sets up torch.distributed."""
        if not self._checkpoints.load():
            return None
        folder = Path(tempfile.mkdtemp(prefix="edl-resume-"))
        self._folder = str(folder)
        for name, file in _FILES.items():
            torch.save(self._checkpoints.values[name], folder / file)
        (folder / _TRAINER).write_text(self._checkpoints.values["trainer"]["json"])
        self._checkpoints.values = {}
        return self._folder

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """All has been read."""
        with contextlib.suppress(OSError):
            if self._folder is not None:
                shutil.rmtree(self._folder)

    def on_step_end(
        self, args: Any, state: Any, control: Any, *, model: Any, optimizer: Any, lr_scheduler: Any, **kwargs: Any
    ) -> None:
        parts = {"model": model, "optimizer": optimizer, "scheduler": lr_scheduler, "trainer": _TrainerState(state)}
        self._checkpoints.save(state.global_step, **parts)
