"""Sums gradients over all workers at the end of each backward pass, with the numbers that members agree by.

Like DistributedDataParallel, so that clipping and scaling see the sum; unlike it, an error is kept and not raised:
`optimizer.step()` is where a step happens or does not. The mean of each share is weighted by its samples, so the sum is
the mean over the global batch, whatever the number of workers. Running means (BatchNorm) are averaged with it, so that
all workers have the same model.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import torch
from torch.autograd import Variable

from edl.torch.agreement import NUMBERS

Reduce = Callable[[], None]
Running = tuple[torch.Tensor, torch.Tensor]
"""A running mean, and its value before the step."""


class Reducer:
    """Buffers of its own hold the gradients of all parameters, one for each type. `reduce` is called once a pass."""

    def __init__(
        self, parameters: Iterable[torch.nn.Parameter], running: Sequence[Running] = (), *, reduce: Reduce
    ) -> None:
        self.parameters = [parameter for parameter in parameters if parameter.requires_grad]
        self._running = running
        self._reduce, self._queued, self._off = reduce, False, 0
        self._head = torch.zeros(NUMBERS + len(self.parameters))
        self._flat: dict[torch.dtype, torch.Tensor] = {}
        self._views: list[torch.Tensor] = []
        self._changes: list[torch.Tensor] = []
        self._gradients: list[torch.Tensor] = []
        self._means: list[torch.Tensor] = []
        self.squares = 0.0
        self._lay_out()
        for parameter in self.parameters:
            parameter.register_post_accumulate_grad_hook(self._accumulated)

    def _lay_out(self) -> None:
        """The numbers travel with the gradients of single precision, in one message."""
        head = self._head.numel()
        lengths: dict[torch.dtype, int] = {torch.float32: head}
        tensors = [*self._local(self.parameters), *(buffer for buffer, _ in self._running)]
        places = []
        for tensor in tensors:
            places.append(lengths.get(tensor.dtype, 0))
            lengths[tensor.dtype] = places[-1] + tensor.numel()
        self._flat = {dtype: torch.zeros(length, dtype=dtype) for dtype, length in lengths.items()}
        self._head = self._flat[torch.float32][:head]
        views = [
            self._flat[tensor.dtype][at : at + tensor.numel()].view(tensor.shape)
            for tensor, at in zip(tensors, places, strict=True)
        ]
        self._views, self._changes = views[: len(self.parameters)], views[len(self.parameters) :]
        own = tensors[: len(self.parameters)]
        ends = {p.dtype: at + p.numel() for p, at in zip(own, places, strict=False)}
        self._gradients = [
            self._flat[dtype][head if dtype == torch.float32 else 0 : end] for dtype, end in ends.items()
        ]

        first = {torch.float32: head, **ends}
        self._means = [flat[first.get(dtype, 0) :] for dtype, flat in self._flat.items()]

    @property
    def _numbers(self) -> torch.Tensor:
        return self._head[:NUMBERS]

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

    def sum(
        self,
        numbers: Sequence[float],
        weight: float,
        over: Callable[[torch.Tensor], None],
        *,
        measure: bool = False,
    ) -> list[float]:
        """Replaces all gradients by their weighted sums, and returns the sums of the numbers. `measure`: the last
        number is the squared norm of this worker's own gradient, and `squares` that of the sum."""
        self._collect(numbers, weight)
        if measure and weight:
            self._head[NUMBERS - 1] = self._squares() / weight**2
        for flat in self._flat.values():
            over(flat)
        if measure:
            self.squares = self._squares()
        self._distribute()
        return [float(number) for number in self._numbers.tolist()]

    def _squares(self) -> float:
        return sum(
            float(part.float().pow(2).sum() if part.dtype != torch.float32 else part.dot(part))
            for part in self._gradients
        )

    def _collect(self, numbers: Sequence[float], weight: float) -> None:
        present = [parameter.grad is not None for parameter in self.parameters]
        self._head.copy_(torch.tensor([*numbers, *map(float, present)]))
        grads = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        views = [view for view, here in zip(self._views, present, strict=True) if here]
        if weight:
            torch._foreach_copy_(views, self._local(grads))
            torch._foreach_mul_(views, weight)
        else:
            torch._foreach_zero_(views)  # not by multiplying: what is not finite would stay so
        for change, (buffer, before) in zip(self._changes, self._running, strict=True):
            torch.sub(buffer.cpu(), before.cpu(), out=change).mul_(weight) if weight else change.zero_()
        if absent := [view for view, here in zip(self._views, present, strict=True) if not here]:
            torch._foreach_zero_(absent)

    def _distribute(self) -> None:
        """A parameter that nobody used has no gradient, one that any used has one everywhere."""
        used = self._head[NUMBERS:].tolist()
        for parameter, count in zip(self.parameters, used, strict=True):
            if count and parameter.grad is None:
                parameter.grad = torch.empty_like(parameter)
        pairs = [(p.grad, view) for p, view, count in zip(self.parameters, self._views, used, strict=True) if count]
        torch._foreach_copy_(self._local([grad for grad, _ in pairs]), [view for _, view in pairs])

        for change, (buffer, before) in zip(self._changes, self._running, strict=True):
            buffer.copy_(before + change.to(before.device))

    def clear(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None
