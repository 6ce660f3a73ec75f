"""Has `fully_shard` sum the gradients of a pod's workers, each with the weight of its share, in place of their mean.

Shares of a batch may differ by a sample, and the mean over the batch weighs samples, not workers.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist

Weight = Callable[[], float]
_reduce_scatter: Any = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor  # its older name


class WeightedSum:
    """What torch calls a custom reduce-scatter of an FSDPModule."""

    def __init__(self, weight: Weight) -> None:
        self._weight = weight

    def allocate(self, size: Any, *, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    def __call__(
        self, output_tensor: torch.Tensor, input_tensor: torch.Tensor, group: Any, op: Any, async_op: bool = False
    ) -> Any:
        weight = self._weight()
        input_tensor.mul_(weight) if weight else input_tensor.zero_()  # what is not finite would stay so
        return _reduce_scatter(output_tensor, input_tensor, group=group, async_op=async_op)


def weigh(models: Iterable[torch.nn.Module], weight: Weight) -> None:
    """From now on. torch is not to divide by anything besides."""
    for module in (module for model in models for module in model.modules()):
        if hasattr(module, "set_custom_reduce_scatter"):
            module.set_custom_reduce_scatter(WeightedSum(weight))
            module.set_gradient_divide_factor(1.0)
            module.set_force_sum_reduction_for_comms(True)
