"""Checkpoints on disk: one file for each, in torch's own format, whole or not there; the newest few are kept."""

import contextlib
import os
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

_NAME = re.compile(r"step-(\d+)\.pt")
_SHARD = re.compile(r"step-(\d+)\.(\d+)-of-(\d+)\.(\d+)\.pt")
_UNFINISHED = ".unfinished"


@dataclass(frozen=True)
class ShardFile:
    """One of `count` files that make up a checkpoint. `branch` tells trainings apart that began anew."""

    step: int
    index: int
    count: int
    branch: int

    @property
    def name(self) -> str:
        return f"step-{self.step}.{self.index}-of-{self.count}.{self.branch}.pt"


class CheckpointFolder:
    def __init__(self, path: Path, keep: int) -> None:
        self.path, self._keep = path, keep

    def shards(self) -> list[ShardFile]:
        """Of models that are spread over ranks."""
        with contextlib.suppress(OSError):
            found = [_SHARD.fullmatch(name) for name in os.listdir(self.path)]
            return [ShardFile(*map(int, one.groups())) for one in found if one]
        return []

    def steps(self) -> list[int]:
        """The newest first; none where the folder cannot be read."""
        try:
            names = os.listdir(self.path)
        except OSError:
            return []
        return sorted((int(found[1]) for name in names if (found := _NAME.fullmatch(name))), reverse=True)

    def file(self, which: int | ShardFile) -> Path:
        return self.path / (f"step-{which}.pt" if isinstance(which, int) else which.name)

    def read(self, which: int | ShardFile) -> dict[str, Any]:
        """Raises whatever a file raises that is damaged or gone."""
        state: dict[str, Any] = torch.load(self.file(which), map_location="cpu", weights_only=False)  # the script's own
        return state

    def write(self, which: int | ShardFile, state: dict[str, Any]) -> None:
        """Beside first, then in place. Raises OSError or RuntimeError, as torch does, and leaves nothing behind."""
        self.path.mkdir(parents=True, exist_ok=True)
        file = self.file(which)
        beside = file.with_name(f"{file.name}.{os.uname().nodename}-{os.getpid()}{_UNFINISHED}")
        try:
            with beside.open("wb") as opened:
                torch.save(state, opened)
                opened.flush()
                os.fsync(opened.fileno())
            beside.replace(file)
        except BaseException:
            with contextlib.suppress(OSError):
                beside.unlink()
            raise
        self._sync()
        self._prune()

    def sweep(self) -> None:
        """What writers left that were killed. Called when there are none."""
        with contextlib.suppress(OSError):
            for file in self.path.glob(f"step-*{_UNFINISHED}"):
                file.unlink(missing_ok=True)

    def _sync(self) -> None:
        """The name, too, outlives a loss of power."""
        folder = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _prune(self) -> None:
        old: list[int | ShardFile] = [*self.steps()[self._keep :], *self._old_shards()]
        for which in old:
            with contextlib.suppress(OSError):
                self.file(which).unlink()

    def _old_shards(self) -> list[ShardFile]:
        """All that is older than the checkpoints to keep of which every shard is there."""
        found = self.shards()
        there = Counter((one.branch, one.step, one.count) for one in found)
        whole = sorted(key for key, count in there.items() if count == key[2])
        if len(whole) < self._keep:
            return []
        return [one for one in found if (one.branch, one.step, one.count) < whole[-self._keep]]
