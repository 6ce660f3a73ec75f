"""The state of the training: models, optimizers, what the script registered, and the cursor, always together.

It is what a newcomer receives and what a checkpoint holds. An object that is registered later than its state came is
given it then.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch.nn.modules.batchnorm import _NormBase
from torch.optim.lr_scheduler import LRScheduler

from edl.torch.cursor import Cursor
from edl.torch.sharded import pieces


class Stateful(Protocol):
    def state_dict(self) -> Any: ...

    def load_state_dict(self, state: Any) -> Any: ...


class TrainingState:
    """`layout`: how the workers of a pod share the models; None: each has all of them."""

    def __init__(
        self,
        models: Sequence[torch.nn.Module],
        optimizers: Sequence[torch.optim.Optimizer],
        cursor: Cursor,
        layout: pieces.Layout | None = None,
    ) -> None:
        self.models, self.optimizers, self.cursor, self.layout = models, optimizers, cursor, layout
        self._registered: dict[str, Stateful] = {}
        self._unclaimed: dict[str, Any] = {}
        self._buffers = [buffer for model in models for buffer in model.buffers()]
        self._committed = [buffer.clone() for buffer in self._buffers]
        committed = dict(zip(map(id, self._buffers), self._committed, strict=True))
        self.running = [(buffer, committed[id(buffer)]) for model in models for buffer in _running(model)]
        """Means and variances of samples so far, each with its value as of the last step that happened."""

    def register(self, name: str, obj: Stateful) -> None:
        if name in self._registered and self._registered[name] is not obj:
            raise ValueError(f"{name!r} is registered already: give this one another name")
        self._registered[name] = obj
        if name in self._unclaimed:
            obj.load_state_dict(self._unclaimed.pop(name))

    @property
    def schedules(self) -> list[LRScheduler]:
        return [obj for obj in self._registered.values() if isinstance(obj, LRScheduler)]

    def capture(self) -> dict[str, Any]:
        """References, not copies. Of a model that is shared, this worker's part."""
        state = self._capture()
        return state if self.layout is None else pieces.split(state)

    def capture_whole(self) -> dict[str, Any]:
        """All workers that share the model call this."""
        state = self._capture()
        return state if self.layout is None else pieces.gathered(state)

    def _capture(self) -> dict[str, Any]:
        return {
            "cursor": self.cursor.state(),
            "models": [model.state_dict() for model in self.models],
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "registered": {name: obj.state_dict() for name, obj in self._registered.items()} | self._unclaimed,
        }

    def load(self, state: dict[str, Any]) -> None:
        """What has the whole, or this worker's part of it at least."""
        if self.layout is not None:
            state = pieces.joined(state, self.layout)
        for model, saved in zip(self.models, state["models"], strict=True):
            model.load_state_dict(saved)
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self._unclaimed = dict(state["registered"])
        for name, obj in self._registered.items():
            if name in self._unclaimed:
                obj.load_state_dict(self._unclaimed.pop(name))
        self.cursor.load(state["cursor"])
        self.commit_buffers()

    def commit_buffers(self) -> None:
        """What a forward pass changes by itself (running means) is kept as of the last step that happened."""
        if self._buffers:
            torch._foreach_copy_(self._committed, self._buffers)

    def restore_buffers(self) -> None:
        if self._buffers:
            torch._foreach_copy_(self._buffers, self._committed)


def _running(model: torch.nn.Module) -> list[torch.Tensor]:
    norms = [module for module in model.modules() if isinstance(module, _NormBase)]
    found = [buffer for norm in norms for buffer in (norm.running_mean, norm.running_var) if buffer is not None]
    return list({id(buffer): buffer for buffer in found}.values())
