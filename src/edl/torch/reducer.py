"""Sums gradients over all workers at the end of each backward pass, with the numbers that members agree by.

Like DistributedDataParallel, so that clipping and scaling see the sum; unlike it, an error is kept and not raised:
`optimizer.step()` is where a step happens or does not. The mean of each share is weighted by its samples, so the sum is
the mean over the global batch, whatever the number of workers. Running means (BatchNorm) are averaged with it, so that
all workers have the same model.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch.autograd import Variable

from edl.torch.gradient_buffers import GradientBuffers
from edl.torch.rounds.agreement import NUMBERS

Reduce = Callable[[], None]
Running = tuple[torch.Tensor, torch.Tensor]
"""A running mean, and its value before the step."""


@dataclass(frozen=True)
class Over:
    """How members of a round sum: on the host, and on the device where gradients are, if there is one."""

    on_host: Callable[[torch.Tensor], None]
    device: torch.device | None = None
    on_device: Callable[[torch.Tensor], None] | None = None


class Reducer:
    """Buffers of its own hold the gradients of all parameters. `reduce` is called once a pass."""

    def __init__(
        self, parameters: Iterable[torch.nn.Parameter], running: Sequence[Running] = (), *, reduce: Reduce
    ) -> None:
        self.parameters = [parameter for parameter in parameters if parameter.requires_grad]
        self._running = running
        self._reduce, self._queued, self._off = reduce, False, 0
        self._kept: GradientBuffers | None = None
        self.squares = 0.0
        for parameter in self.parameters:
            parameter.register_post_accumulate_grad_hook(self._accumulated)

    def _buffers(self, device: torch.device | None) -> GradientBuffers:
        """As long as gradients are summed there, the same ones."""
        if self._kept is None or self._kept.device != device:
            self._kept = None  # first, for there may be no room for both
            running = [buffer for buffer, _ in self._running]
            head = NUMBERS + len(self.parameters)
            self._kept = GradientBuffers(head, self._local(self.parameters), running, device)
        return self._kept

    def _local(self, tensors: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        """What this worker has of them."""
        return tensors

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Gradients of backward passes within this stay with their worker, and are summed with the next ones."""
        self._off += 1
        try:
            yield
        finally:
            self._off -= 1

    def _accumulated(self, parameter: torch.Tensor) -> None:
        if not self._queued and not self._off:
            self._queued = True
            Variable._execution_engine.queue_callback(self._passed)

    def _passed(self) -> None:
        self._queued = False
        self._reduce()

    def sum(self, numbers: Sequence[float], weight: float, over: Over, *, measure: bool = False) -> list[float]:
        """Replaces all gradients by their weighted sums, and returns the sums of the numbers. `measure`: the last
        number is the squared norm of this worker's own gradient, and `squares` that of the sum."""
        buffers = self._buffers(over.device)
        self._collect(buffers, numbers, weight)
        if measure and weight:
            buffers.head[NUMBERS - 1] = _squares(buffers) / weight**2
        for flat in buffers.on_device:
            assert over.on_device is not None
            over.on_device(flat)
        for flat in buffers.on_host:  # with the numbers, which say that all have come as far (planes/plane.py)
            over.on_host(flat)
        if measure:
            self.squares = _squares(buffers)
        self._distribute(buffers)
        return [float(number) for number in buffers.head[:NUMBERS].tolist()]

    def _collect(self, buffers: GradientBuffers, numbers: Sequence[float], weight: float) -> None:
        present = [parameter.grad is not None for parameter in self.parameters]
        buffers.head.copy_(torch.tensor([*numbers, *map(float, present)]))
        grads = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        views = [view for view, here in zip(buffers.gradients, present, strict=True) if here]
        if weight:
            torch._foreach_copy_(views, self._local(grads))
            torch._foreach_mul_(views, weight)
        else:
            torch._foreach_zero_(views)  # not by multiplying: what is not finite would stay so
        there = buffers.there
        for change, (buffer, before) in zip(buffers.changes, self._running, strict=True):
            torch.sub(there(buffer), there(before), out=change).mul_(weight) if weight else change.zero_()
        if absent := [view for view, here in zip(buffers.gradients, present, strict=True) if not here]:
            torch._foreach_zero_(absent)

    def _distribute(self, buffers: GradientBuffers) -> None:
        """A parameter that nobody used has no gradient, one that any used has one everywhere."""
        used = buffers.head[NUMBERS:].tolist()
        for parameter, count in zip(self.parameters, used, strict=True):
            if count and parameter.grad is None:
                parameter.grad = torch.empty_like(parameter)
        summed = zip(self.parameters, buffers.gradients, used, strict=True)
        pairs = [(parameter.grad, view) for parameter, view, count in summed if count]
        torch._foreach_copy_(self._local([grad for grad, _ in pairs]), [view for _, view in pairs])

        for change, (buffer, before) in zip(buffers.changes, self._running, strict=True):
            buffer.copy_(before + change.to(before.device))

    def clear(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None


def _squares(buffers: GradientBuffers) -> float:
    return sum(
        float(part.float().pow(2).sum() if part.dtype != torch.float32 else part.dot(part)) for part in buffers.parts
    )
