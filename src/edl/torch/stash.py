"""Adds up the gradients of a share that is computed in parts, between which the script clears them."""

from collections.abc import Sequence

import torch


class Stash:
    def __init__(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        self._parameters = parameters
        self._sums: list[torch.Tensor | None] = []
        self._samples = 0

    def put(self, samples: int) -> None:
        """The present gradients are the mean of so many samples."""
        if not self._sums:
            self._sums = [None] * len(self._parameters)
        for at, parameter in enumerate(self._parameters):
            if parameter.grad is not None:
                weighted = parameter.grad * samples
                kept = self._sums[at]
                self._sums[at] = weighted if kept is None else kept.add_(weighted)
        self._samples += samples

    def take(self, samples: int) -> None:
        """Makes the present gradients, of so many samples, the mean of all."""
        if not self._samples:
            return
        whole = self._samples + samples
        for parameter, kept in zip(self._parameters, self._sums, strict=True):
            if parameter.grad is not None:
                parameter.grad.mul_(samples / whole)
            if kept is not None:
                kept.div_(whole)
                parameter.grad = kept if parameter.grad is None else parameter.grad.add_(kept)
        self.clear()

    def clear(self) -> None:
        self._sums, self._samples = [], 0
