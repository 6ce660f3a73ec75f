"""The memory in which gradients, running means and the numbers of a step are summed: one buffer for each type.

On the host, the numbers travel with the gradients of single precision, in one message. Beside a device plane, gradients
and running means stay on its device, and the numbers are on the host by themselves.
"""

from collections.abc import Callable, Sequence

import torch


class GradientBuffers:
    """`head` has so many numbers. `gradients` and `changes` are what is summed of each parameter and running mean."""

    def __init__(
        self,
        head: int,
        parameters: Sequence[torch.Tensor],
        running: Sequence[torch.Tensor],
        device: torch.device | None,
    ) -> None:
        self.device = device
        self.there: Callable[[torch.Tensor], torch.Tensor] = torch.Tensor.cpu if device is None else _mover(device)
        """Brings a tensor to where the buffers are."""
        first = 0 if device is not None else head
        lengths: dict[torch.dtype, int] = {torch.float32: first} if first else {}
        places, tensors = [], [*parameters, *running]
        for tensor in tensors:
            places.append(lengths.get(tensor.dtype, 0))
            lengths[tensor.dtype] = places[-1] + tensor.numel()
        flat = {dtype: torch.zeros(length, dtype=dtype, device=device) for dtype, length in lengths.items()}
        views = [
            flat[tensor.dtype][at : at + tensor.numel()].view(tensor.shape)
            for tensor, at in zip(tensors, places, strict=True)
        ]
        self.gradients, self.changes = views[: len(parameters)], views[len(parameters) :]
        self.head = torch.zeros(head) if device is not None else flat[torch.float32][:head]
        self.on_device = list(flat.values()) if device is not None else []
        self.on_host = [self.head] if device is not None else list(flat.values())
        ends = {p.dtype: at + p.numel() for p, at in zip(parameters, places, strict=False)}
        begin = {torch.float32: first}
        self.parts = [flat[dtype][begin.get(dtype, 0) : end] for dtype, end in ends.items()]
        """The gradients of all parameters, by type."""
        self.means = [whole[ends.get(dtype, begin.get(dtype, 0)) :] for dtype, whole in flat.items()]
        """The changes of all running means, by type."""


def _mover(device: torch.device) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda tensor: tensor.to(device)
