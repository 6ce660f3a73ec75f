"""Elastic PyTorch: workers stay alive through every change of members, no step is lost, no sample is seen twice.

    import edl.torch as elastic

    model, optimizer, loader = elastic.prepare(model, optimizer, loader)  # the global batch is loader.batch_size
    for epoch in elastic.epochs(10):  # resumes at the committed epoch
        for x, y in loader:  # this worker's share of the global batch
            optimizer.zero_grad()
            loss_fn(model(x), y).backward()  # a mean over its samples
            optimizer.step()  # the commit point

Run by torchrun in an ElasticJob. Anywhere else every call is the identity. Needs the standard library and torch, which
is imported when the first call is looked up. `engine` is where to begin to read.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edl.torch.api import (
        all_reduce,
        checkpoint,
        committed_step,
        epochs,
        local_mesh,
        no_sync,
        on_commit,
        prepare,
        process_group,
        register,
        world,
    )
    from edl.torch.checkpoints.checkpointer import Checkpointer
    from edl.torch.checkpoints.trainer import TrainerCheckpoints
    from edl.torch.refusal import NotElasticError
    from edl.torch.rounds.members import World

__all__ = [
    "Checkpointer",
    "NotElasticError",
    "TrainerCheckpoints",
    "World",
    "all_reduce",
    "checkpoint",
    "committed_step",
    "epochs",
    "local_mesh",
    "no_sync",
    "on_commit",
    "prepare",
    "process_group",
    "register",
    "world",
]

_ELSEWHERE = {
    "Checkpointer": "edl.torch.checkpoints.checkpointer",
    "TrainerCheckpoints": "edl.torch.checkpoints.trainer",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_ELSEWHERE.get(name, "edl.torch.api")), name)
