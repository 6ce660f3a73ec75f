"""The calls of `edl.torch`: each is the identity outside of a job."""

import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch

from edl.torch import checkpoint_file, preparation
from edl.torch.engine import Engine
from edl.torch.optimizer import attach
from edl.torch.preparation import Options
from edl.torch.refusal import NotElasticError
from edl.torch.rounds.members import World
from edl.torch.scaling.reports import report_pace
from edl.torch.script_group import ScriptGroup
from edl.torch.sharded import local_mesh as meshes

_engine: Engine | None = None


def prepare(
    model: Any,
    optimizer: Any,
    loader: Any = None,
    *,
    micro_batch: int = 0,
    seed: int | None = None,
    batch: str = preparation.CONSTANT,
    max_batch: int = 0,
) -> tuple[Any, Any, Any]:
    """Model, optimizer and loader of elastic training. Of several models and optimizers, give lists: the step of the
    last optimizer commits.

    A worker's share comes in parts of at most `micro_batch`. With `batch="scale"` the global batch is that of the
    smallest size of the job, grows with the workers up to `max_batch`, and the learning rate follows it."""
    global _engine
    models, optimizers = _several(model), _several(optimizer)
    options = Options(micro_batch, seed, batch, max_batch)
    preparation.check(models, optimizers, loader, options)
    if not preparation.in_a_job():
        return model, optimizer, loader
    if _engine is not None:
        raise NotElasticError("prepare() was called before: call it once")
    _engine = preparation.make_engine(models, optimizers, options)
    made = None if loader is None else preparation.make_loader(loader, _engine, micro_batch)
    report_pace(_engine, os.environ)
    return model, optimizer, made


def local_mesh(device: str = "") -> Any:
    """The mesh of this pod's workers, for a model that one of them cannot hold: give it to `fully_shard` before
    `prepare`. Every pod then has a whole model. `device`: cuda where there is one, else cpu. On a laptop it is the mesh
    of torchrun's workers on this machine."""
    return meshes.local_mesh(device)


def _several(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [given]


def epochs(count: int) -> Iterator[int]:
    """The epochs that are left, the committed one first."""
    if _engine is None:
        yield from range(count)
        return
    _engine.epochs = count
    _engine.join()
    while _engine.state.cursor.epoch < count:
        yield _engine.state.cursor.epoch
    _engine.members.finish()


def register(name: str, obj: Any) -> None:
    """Has the state of a scheduler, an average, a GradScaler... go with the training. `obj` has `state_dict`."""
    if _engine is not None:
        attach(_engine, name, obj)


def on_commit(act: Callable[[], None]) -> None:
    """Called after every step that happened, on every worker."""
    if _engine is not None:
        _engine.on_commit.append(act)


def world() -> World:
    """This worker's rank, how many there are, and the number of the round."""
    if _engine is not None:
        return _engine.world
    return World(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))


def committed_step() -> int:
    """How many steps have happened."""
    if _engine is None:
        return 0
    _engine.join()
    return _engine.state.cursor.step


def checkpoint(path: str | Path, *, every: int = 100) -> None:
    """Saves the training every so many steps, and resumes from there when all workers were lost. Call it before
    `epochs`. Outside of a job nothing is saved."""
    if every < 1:
        raise ValueError(f"every is {every}, it must be a number of steps")
    if _engine is not None:
        checkpoint_file.keep(_engine, Path(path), every)


def all_reduce(tensor: torch.Tensor) -> bool:
    """Sums a tensor over all workers, in place, as a part of the step. All workers call it at the same places.

    False if it was not summed: a worker was lost, and the step is made again; or more of this worker's share follows
    (`micro_batch`), and the sum comes with the last part. Outside of a job the tensor is the sum already."""
    return True if _engine is None else _engine.all_reduce(tensor)


def process_group() -> Any:
    """For collectives of torch.distributed, at the same places on all workers: one that fails has the step made again.
    Outside of a job it is None, torch's default group."""
    return None if _engine is None else ScriptGroup(_engine)


def no_sync() -> AbstractContextManager[None]:
    """Backward passes within it only accumulate; the next one outside sums what has come together."""
    return contextlib.nullcontext() if _engine is None else _engine.reducer.paused()
