"""Ways to shard a model that cannot be elastic, one after the other in one process; prints what each is told."""

import json
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import edl.torch as elastic


class Stream(IterableDataset):  # type: ignore[type-arg,misc,unused-ignore]  # as torch has it
    def __iter__(self) -> Any:
        return iter(())

    def shards(self) -> int:
        return 1

    def read(self, shard: int, start: int) -> Any:
        return iter(())


def network() -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))


def prepare(
    model: torch.nn.Module, *, parts: int = 1, data: "Dataset[Any] | None" = None, **options: Any
) -> tuple[Any, ...]:
    parameters = list(model.parameters())
    optimizers = [torch.optim.SGD(parameters[part::parts], lr=0.1) for part in range(parts)]
    return elastic.prepare(model, optimizers, DataLoader(data or TensorDataset(torch.zeros(8, 4)), 4), **options)


def told(act: Callable[[], Any]) -> str:
    try:
        act()
    except elastic.NotElasticError as error:
        return str(error)
    return ""


def main() -> None:
    said = {}
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    over_all = init_device_mesh("cpu", (1,))
    said["other mesh"] = told(lambda: prepare(fully_shard(network(), mesh=over_all)))
    said["initialised"] = told(elastic.local_mesh)
    dist.destroy_process_group()
    mesh = elastic.local_mesh()
    model = network()
    fully_shard(model[0], mesh=mesh)
    said["in part"] = told(lambda: prepare(model))
    fully_shard(model, mesh=mesh)
    said["whole"] = told(lambda: prepare(model))
    said["micro"] = told(lambda: prepare(model, micro_batch=2))
    said["two optimizers"] = told(lambda: prepare(model, parts=2))
    said["stream"] = told(lambda: prepare(model, data=Stream()))
    print(json.dumps(said))


if __name__ == "__main__":
    main()
