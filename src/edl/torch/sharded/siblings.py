"""The workers of this pod, where they share one model: what happens to one of them happens to all.

Inside the pod `fully_shard` gathers and reduces in a group of its own, which lives as long as the pod. So no worker may
go on to the next step, or into a round, while another one is in the step before: it would wait in that group for ever.
And all of them must have the same step, for together they are one copy of the model.
"""

import datetime
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
import torch.distributed as dist

from edl.torch.gradient_buffers import GradientBuffers
from edl.torch.reducer import Over, Reduce, Reducer, Running
from edl.torch.rounds.agreement import NUMBERS
from edl.torch.rounds.group import Group, GroupBrokenError

PATIENCE = datetime.timedelta(days=7)  # a sibling that is gone takes this process with it, by their agent


class Siblings:
    """Of a worker that has the whole model itself: none."""

    size = 1
    """How many workers share the model, this one among them."""
    sharded = False

    def agree(self, good: bool) -> bool:
        """Whether it went well for all workers of the pod. All of them call it."""
        return good

    def all_or_none(self, what: str) -> AbstractContextManager[None]:
        """What is done within counts only if all workers of the pod have done it; else it raises for all of them. For
        what fails or succeeds in its own time: nobody waits for a worker that has failed."""
        return nullcontext()

    def over(self, group: Group) -> Over:
        """How gradients are summed over all who have the same part of the model."""
        return Over(group.all_reduce, group.device, group.all_reduce_on_device)

    def reducer(
        self, parameters: Iterable[torch.nn.Parameter], running: Sequence[Running], *, reduce: Reduce
    ) -> Reducer:
        return Reducer(parameters, running, reduce=reduce)


class PodSiblings(Siblings):
    """They meet in torch's default group, and in a store where nobody has to wait for another."""

    sharded = True

    def __init__(self, store: Any, rank: int, size: int) -> None:
        self._store, self._rank, self.size = store, rank, size

    def agree(self, good: bool) -> bool:
        if self.size == 1:
            return good
        worst = torch.tensor([int(good)])
        dist.all_reduce(worst, op=dist.ReduceOp.MIN)
        return bool(worst)

    @contextmanager
    def all_or_none(self, what: str) -> Iterator[None]:
        try:
            yield
        except GroupBrokenError:
            self._store.set(f"{what}/{self._rank}", "0")
            raise
        self._store.set(f"{what}/{self._rank}", "1")
        for rank in range(self.size):
            if self._store.get(f"{what}/{rank}") != b"1":  # waits until it is there
                raise GroupBrokenError("another worker of this pod did not come as far")

    def over(self, group: Group) -> Over:
        return Over(group.all_reduce_shards)

    def reducer(
        self, parameters: Iterable[torch.nn.Parameter], running: Sequence[Running], *, reduce: Reduce
    ) -> Reducer:
        return ShardReducer(parameters, running, reduce=reduce, siblings=self)

    def pool(self, tensor: torch.Tensor) -> None:
        """Sums over the workers of the pod, in place."""
        if self.size > 1 and tensor.numel():
            dist.all_reduce(tensor)


class ShardReducer(Reducer):
    """Sums this worker's part of the gradients with the same part of the other pods. Inside the pod `fully_shard` has
    summed them, each with its weight; numbers and running means are summed here."""

    def __init__(
        self,
        parameters: Iterable[torch.nn.Parameter],
        running: Sequence[Running] = (),
        *,
        reduce: Reduce,
        siblings: PodSiblings,
    ) -> None:
        self._siblings = siblings
        super().__init__(parameters, running, reduce=reduce)

    def _local(self, tensors: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        return [tensor._local_tensor for tensor in tensors]

    def _collect(self, buffers: GradientBuffers, numbers: Sequence[float], weight: float) -> None:
        if self._siblings.size == 1:
            super()._collect(buffers, numbers, weight)  # nothing was to be summed in the pod, and nothing was weighted
            return
        super()._collect(buffers, numbers, 1.0)
        for changes in buffers.means:
            changes.mul_(weight) if weight else changes.zero_()
        for tensor in (buffers.head[:NUMBERS], *buffers.means):
            self._siblings.pool(tensor)
