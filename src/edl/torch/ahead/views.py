"""The tensors of the state, as the training thread shows them to another one between two steps.

`state_dict` of an optimizer, or of whatever the script registered, must not be called while a step changes it. So the
thread that trains calls it, when it was asked to. It hands out references, which cost no copy.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from edl.torch.rounds import transfer

SAMPLE = 1024  # numbers


@dataclass(frozen=True)
class Seen:
    """A tensor at a moment. It shares its memory with the script's, and stays whole when that one gets other memory.

    `sample` is a copy of a few bytes. Not every change counts as a version: optimizers do not tell of those that they
    make to the local parts of what is sharded."""

    tensor: torch.Tensor
    version: int
    sample: torch.Tensor

    @classmethod
    def now(cls, tensor: torch.Tensor) -> "Seen":
        return cls(tensor.detach(), version_of(tensor), _sample(tensor.detach()))

    def same(self, other: "Seen") -> bool:
        """As far as can be told without a look at all of its bytes."""
        mine, theirs = self.tensor, other.tensor
        return (
            self.version == other.version
            and (mine.dtype, mine.shape, mine.stride()) == (theirs.dtype, theirs.shape, theirs.stride())
            and (mine.device, mine.data_ptr()) == (theirs.device, theirs.data_ptr())
            and torch.equal(self.sample, other.sample)
        )


def _sample(tensor: torch.Tensor) -> torch.Tensor:
    """From its middle, without a copy of the rest."""
    if not tensor.numel():
        return torch.empty(0, dtype=torch.uint8)
    while tensor.dim() > 1:
        tensor = tensor[len(tensor) // 2]
    flat = tensor.reshape(-1)
    return flat[len(flat) // 2 :][:SAMPLE].clone(memory_format=torch.contiguous_format).view(torch.uint8)


def plain(tensor: torch.Tensor) -> bool:
    """Its bytes are in its memory, and nowhere else."""
    return type(tensor) is torch.Tensor and tensor.layout is torch.strided and not tensor.is_quantized


View = dict[transfer.Path, Seen]


def version_of(tensor: torch.Tensor) -> int:
    """Grows with every change that torch knows of."""
    return 0 if tensor.is_inference() else tensor._version


def view_of(state: Any) -> View:
    return {path: Seen.now(tensor) for path, tensor in transfer.tensors(state) if plain(tensor.detach())}


class Views:
    """`condition` is notified whenever a view is there; whoever waits for one is woken by it for other reasons, too."""

    def __init__(self, condition: threading.Condition) -> None:
        self._condition = condition
        self._waiting, self._shown = 0, 0
        self._view: View = {}

    def show(self, capture: Callable[[], Any]) -> None:
        """By the training thread, after every step; it does nothing if nobody waits."""
        if not self._waiting:
            return
        view = view_of(capture())
        with self._condition:
            self._view, self._shown = view, self._shown + 1
            self._condition.notify_all()

    def next(self, give_up: Callable[[], bool]) -> View | None:
        """The tensors after the next step; None if it is given up before."""
        with self._condition:
            before = self._shown
            self._waiting += 1
            try:
                while self._shown == before:
                    if give_up():
                        return None
                    self._condition.wait(1.0)
                return self._view
            finally:
                self._waiting -= 1
                if not self._waiting:
                    self._view = {}  # what the script drops is to be freed
