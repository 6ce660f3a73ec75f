"""Makes a script's models, optimizers and loader elastic; refuses what cannot be, and says what to do instead."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from edl.runtime.torch.lines import JOINS, LINK
from edl.torch.agent_link import AgentLink
from edl.torch.cursor import Cursor
from edl.torch.data.shards import has_shards
from edl.torch.data.stream_loader import StreamLoader
from edl.torch.engine import Engine
from edl.torch.loader import ElasticLoader
from edl.torch.optimizer import commit_by_step
from edl.torch.planes.choice import Planes, choose
from edl.torch.refusal import NotElasticError
from edl.torch.rounds import group as groups
from edl.torch.rounds.next_group import Build
from edl.torch.scaling.learning_rate import has_rule
from edl.torch.sharded import local_mesh, recognition
from edl.torch.sharded.weighted_sum import weigh
from edl.torch.state import TrainingState

_WRAPPED = ("DistributedDataParallel", "FullyShardedDataParallel", "DataParallel")
CONSTANT, SCALE = "constant", "scale"


@dataclass(frozen=True)
class Options:
    """Of `prepare`, which says what they mean."""

    micro_batch: int = 0
    seed: int | None = None
    batch: str = CONSTANT
    max_batch: int = 0


def in_a_job(env: Mapping[str, str] = os.environ) -> bool:
    return LINK in env


def make_engine(
    models: Sequence[torch.nn.Module], optimizers: Sequence[torch.optim.Optimizer], options: Options
) -> Engine:
    """Of this process, which is a worker of a job."""
    host = os.environ.get("POD_IP", "")
    shared = recognition.layout_in_pod(models) is not None
    shards = _number(os.environ, "LOCAL_WORLD_SIZE") if shared else 0
    parameters = [parameter for model in models for parameter in model.parameters()]
    planes = Planes() if shared else choose(parameters, os.environ)

    def build(round_: groups.Round, superseded: Callable[[], bool]) -> groups.Group:
        round_ = replace(round_, shards=shards, plane=planes.name)
        return planes.equip(groups.build(round_, host=host, superseded=superseded), superseded)

    return assemble(models, optimizers, options, link=AgentLink.open(os.environ), build=build, env=os.environ)


def assemble(
    models: Sequence[torch.nn.Module],
    optimizers: Sequence[torch.optim.Optimizer],
    options: Options,
    *,
    link: AgentLink,
    build: Build,
    env: Mapping[str, str],
) -> Engine:
    cursor = Cursor(seed=torch.initial_seed() >> 1 if options.seed is None else options.seed)
    if options.batch == SCALE:
        cursor.base = _number(env, "MIN_SIZE") * _number(env, "LOCAL_WORLD_SIZE")
    layout = recognition.layout_in_pod(models)
    siblings = local_mesh.siblings() if layout is not None else None
    engine = Engine(TrainingState(models, optimizers, cursor, layout), link, build, siblings)
    if layout is not None:
        weigh(models, engine.share)
    engine.growth.most = options.max_batch
    for optimizer in optimizers:
        commit_by_step(optimizer, engine)
    return engine


def make_loader(loader: DataLoader[Any], engine: Engine, micro_batch: int) -> ElasticLoader | StreamLoader:
    if isinstance(loader.dataset, IterableDataset):
        return StreamLoader(loader, engine)
    return ElasticLoader(loader, engine, micro_batch=micro_batch)


def check(
    models: Sequence[Any], optimizers: Sequence[Any], loader: Any, options: Options, env: Mapping[str, str] = os.environ
) -> None:
    """In a job or not: a script is refused on a laptop already."""
    for model in models:
        _check_model(model)
    for optimizer in optimizers:
        _check_optimizer(optimizer)
    if not models or not optimizers:
        raise NotElasticError("prepare() needs a model and an optimizer at least")
    if len({id(optimizer) for optimizer in optimizers}) < len(optimizers):
        raise NotElasticError("an optimizer is in the list twice: name each once, the one that steps last at the end")
    if loader is not None:
        _check_loader(loader, options)
        _check_size(loader, env)
    _check_options(optimizers, options)
    recognition.check(models, optimizers, loader, micro_batch=options.micro_batch)


def _check_model(model: Any) -> None:
    if any(kind.__name__ in _WRAPPED for kind in type(model).__mro__):
        raise NotElasticError(f"the model is wrapped in {type(model).__name__}: give prepare() the plain module")
    if not isinstance(model, torch.nn.Module):
        raise NotElasticError(f"the model is a {type(model).__name__}, it must be a torch.nn.Module")


def _check_optimizer(optimizer: Any) -> None:
    if isinstance(optimizer, torch.optim.LBFGS):
        raise NotElasticError("LBFGS computes a step several times: take an optimizer that steps without a closure")
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise NotElasticError(f"the optimizer is a {type(optimizer).__name__}, it must be a torch.optim.Optimizer")


def _check_options(optimizers: Sequence[torch.optim.Optimizer], options: Options) -> None:
    if options.micro_batch < 0:
        raise NotElasticError(f"micro_batch is {options.micro_batch}, it must be a number of samples, or 0")
    if options.micro_batch and len(optimizers) > 1:
        raise NotElasticError("micro_batch is for one optimizer: with several, lower batch_size instead")
    if options.batch not in (CONSTANT, SCALE):
        raise NotElasticError(f"batch is {options.batch!r}, it must be {CONSTANT!r} or {SCALE!r}")
    if options.max_batch and options.batch != SCALE:
        raise NotElasticError(f"max_batch bounds a batch that grows: give batch={SCALE!r} too, or leave it out")
    for optimizer in optimizers:
        if options.batch == SCALE and not has_rule(optimizer):
            raise NotElasticError(
                f"no rule says how {type(optimizer).__name__} follows a batch that grows: "
                f"take SGD or one of Adam's kind, or leave batch={CONSTANT!r}"
            )


def _check_loader(loader: Any, options: Options) -> None:
    if not isinstance(loader, DataLoader):
        raise NotElasticError(f"the loader is a {type(loader).__name__}, it must be a torch.utils.data.DataLoader")
    if loader.batch_size is None:
        raise NotElasticError("the loader has a batch_sampler: give it batch_size, the global batch, and a sampler")
    if isinstance(loader.dataset, IterableDataset):
        if not has_shards(loader.dataset):
            raise NotElasticError(
                "the data set is an IterableDataset without shards: give it shards(), their number, and "
                "read(shard, start), the samples of one from a position on; or one with a length and indices"
            )
        if options.micro_batch or loader.drop_last:
            given = "micro_batch" if options.micro_batch else "drop_last"
            raise NotElasticError(f"{given} is for data sets with a length: leave it out with a stream")
    elif not hasattr(loader.sampler, "__len__"):
        raise NotElasticError("the sampler has no length: have its __len__ say how many samples an epoch has")


def _check_size(loader: Any, env: Mapping[str, str]) -> None:
    """By the first workers. Who joins those that train already is not what a job should end by."""
    workers = _number(env, "WORLD_SIZE")
    if LINK in env and not env.get(JOINS) and loader.batch_size < workers:
        raise NotElasticError(
            f"batch_size={loader.batch_size} is the global batch and smaller than the {workers} workers: "
            f"raise it to {workers} at least, or lower the job's maxReplicas"
        )


def _number(env: Mapping[str, str], name: str) -> int:
    return int(env[name]) if env.get(name, "").isdecimal() else 1
