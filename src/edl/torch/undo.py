"""Takes back what optimizers applied since the last step that happened, in a script that has several.

All but the last of them apply their part before the step is sure: the sum that the last one needs may still fail. So
what they change is copied first. A script with one optimizer pays nothing.
"""

import copy
from collections.abc import Iterable
from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler


class Undo:
    def __init__(self) -> None:
        self._applied: dict[int, tuple[Optimizer, list[torch.Tensor], Any]] = {}
        self._schedules: list[tuple[LRScheduler, Any]] = []

    def remember(self, optimizer: Optimizer, schedules: Iterable[LRScheduler]) -> None:
        """Before it applies anything. What was remembered since the last step that happened stays."""
        if not self._applied:
            self._schedules = [(schedule, copy.deepcopy(schedule.state_dict())) for schedule in schedules]
        if id(optimizer) not in self._applied:
            values = [parameter.detach().clone() for parameter in _parameters(optimizer)]
            self._applied[id(optimizer)] = optimizer, values, copy.deepcopy(optimizer.state_dict())

    def restore(self) -> None:
        for optimizer, values, state in self._applied.values():
            with torch.no_grad():
                torch._foreach_copy_(_parameters(optimizer), values)
            optimizer.load_state_dict(state)
        for schedule, state in self._schedules:
            schedule.load_state_dict(state)
        self.forget()

    def forget(self) -> None:
        """The step happened."""
        self._applied, self._schedules = {}, []


def _parameters(optimizer: Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
