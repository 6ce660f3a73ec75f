"""Tells a model that is sharded within the pod, which can be elastic, from other ways to shard, which cannot."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.data import IterableDataset

from edl.torch.refusal import NotElasticError
from edl.torch.sharded import local_mesh
from edl.torch.sharded.pieces import Layout, is_spread, layout_of


def layout_in_pod(models: Sequence[torch.nn.Module]) -> Layout | None:
    """How the workers of this pod share the models; None if each has all of them."""
    parameters = [parameter for model in models for parameter in model.parameters()]
    spread = [parameter for parameter in parameters if is_spread(parameter)]
    if not spread:
        return None
    if any(not local_mesh.is_local(parameter.device_mesh) for parameter in spread):
        raise NotElasticError(
            "the model is sharded over a mesh that is not this pod's: fully_shard(..., mesh=elastic.local_mesh()) "
            "gives every pod a whole model; elastic.Checkpointer is for models that are sharded over pods"
        )
    if len(spread) < len(parameters):
        raise NotElasticError(
            f"{len(parameters) - len(spread)} of {len(parameters)} parameters are not sharded: call fully_shard() for "
            "the model itself, after its layers"
        )
    return _only_layout(models)


def _only_layout(models: Sequence[torch.nn.Module]) -> Layout | None:
    try:
        layout = layout_of({str(at): model for at, model in enumerate(models)})
    except ValueError as error:
        raise NotElasticError("parameters are sharded in several ways: leave out shard_placement_fn") from error
    if not any(hasattr(module, "set_custom_reduce_scatter") for model in models for module in model.modules()):
        raise NotElasticError("the model is not sharded by fully_shard() of a torch that has set_custom_reduce_scatter")
    return layout


def check(models: Sequence[torch.nn.Module], optimizers: Sequence[Any], loader: Any, *, micro_batch: int) -> None:
    """Refuses what goes with models that are not sharded only."""
    if layout_in_pod(models) is None:
        return
    if isinstance(getattr(loader, "dataset", None), IterableDataset):
        raise NotElasticError("a sharded model takes no stream: give it a data set with a length and indices")
    if len(optimizers) > 1:
        raise NotElasticError("a sharded model takes one optimizer: give it the parameters of all in groups")
    if micro_batch:
        raise NotElasticError(
            "micro_batch is for models that are not sharded: accumulate batches with elastic.no_sync() instead"
        )
