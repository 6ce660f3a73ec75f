"""Rules by which an optimizer's settings follow the batch, applied for the time of one step.

In between they are as the script and its schedulers set them, so no schedule ever sees a scaled value.

SGD: the learning rate grows in proportion to the batch. Adam and its like: by the square root; the averages forget in
proportion (1 - beta), and epsilon shrinks by the square root.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_BY_ROOT = (torch.optim.RMSprop, torch.optim.Adagrad, torch.optim.Adadelta)


def has_rule(optimizer: torch.optim.Optimizer) -> bool:
    return isinstance(optimizer, (torch.optim.SGD, *_BY_ROOT)) or "betas" in optimizer.defaults


@contextmanager
def scaled(optimizer: torch.optim.Optimizer, scale: float) -> Iterator[None]:
    """For a batch of so many times the one that the script was tuned for."""
    if scale == 1.0:
        yield
        return
    before = [_follow(optimizer, group, scale) for group in optimizer.param_groups]
    try:
        yield
    finally:
        for group, values in zip(optimizer.param_groups, before, strict=True):
            group.update(values)


def _follow(optimizer: torch.optim.Optimizer, group: dict[str, Any], scale: float) -> dict[str, Any]:
    """Sets what the rule says, and returns what was."""
    news = rule(group, scale, linear=isinstance(optimizer, torch.optim.SGD))
    before = {name: group[name] for name in news}
    group.update(news)
    return before


def rule(group: dict[str, Any], scale: float, *, linear: bool) -> dict[str, Any]:
    if linear:
        return {"lr": group["lr"] * scale}
    root = math.sqrt(scale)
    news: dict[str, Any] = {"lr": group["lr"] * root}
    if "betas" in group:
        news["betas"] = tuple(max(0.0, 1 - scale * (1 - beta)) for beta in group["betas"])
    if group.get("eps"):
        news["eps"] = group["eps"] / root
    return news
