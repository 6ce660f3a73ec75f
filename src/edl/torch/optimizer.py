"""Makes `step` of an optimizer the point at which a step of all workers is committed, on the object itself.

Of several optimizers, the last one commits. The object stays the script's own, so that schedulers made before or after
hold the right one.
"""

import types
from typing import Any

import torch

from edl.torch.engine import Engine
from edl.torch.refusal import NotElasticError


def commit_by_step(optimizer: torch.optim.Optimizer, engine: Engine) -> None:
    original = optimizer.step

    def step(self: torch.optim.Optimizer, closure: Any = None) -> Any:
        """None, and nothing is applied, when the step did not happen: the loader yields its batch again."""
        if closure is not None:
            raise TypeError("edl.torch: optimizer.step(closure) computes a step several times; call step() without")
        return engine.step(original, self)

    if hasattr(original, "_wrapped_by_lr_sched"):  # by a scheduler, which would warn if it did not find its mark
        step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]  # torch's own
    optimizer.step = types.MethodType(step, optimizer)  # a method, for schedulers wrap it as such


def attach(engine: Engine, name: str, obj: Any) -> None:
    """Has the state of a scheduler, an average, a GradScaler... go with the training."""
    if engine.siblings.sharded and isinstance(obj, torch.amp.GradScaler):
        raise NotElasticError("a GradScaler does not see infinite values of other workers' shards: take bfloat16")
    engine.state.register(name, obj)
    if isinstance(obj, torch.optim.lr_scheduler.LRScheduler):
        skip_without_commit(obj, engine)
    elif isinstance(obj, torch.amp.GradScaler):
        commit_by_scaler(obj, engine)


def skip_without_commit(scheduler: Any, engine: Engine) -> None:
    """A scheduler counts steps that happened: one that is made again is not counted twice.

    By a class of its own, for all attributes of a scheduler are its state."""
    kind = type(scheduler)

    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        return kind.step(self, *args, **kwargs) if engine.committed else None

    scheduler.__class__ = type(kind.__name__, (kind,), {"step": step})


def commit_by_scaler(scaler: Any, engine: Engine) -> None:
    """A GradScaler that meets an infinite gradient does not call `step`: the data counts as seen all the same."""
    original, update = scaler.step, scaler.update

    def step(optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
        before = engine.state.cursor.step
        if engine.broken or engine.void:
            return engine.step(lambda: None, optimizer)  # there are no gradients that could be scaled
        result = original(optimizer, *args, **kwargs)
        if engine.state.cursor.step == before and engine.summed and engine.commits(optimizer):
            engine.commit()
        return result

    def update_after_commit(*args: Any, **kwargs: Any) -> Any:
        return update(*args, **kwargs) if engine.committed else scaler._per_optimizer_states.clear()

    scaler.step, scaler.update = step, update_after_commit
