"""A model that no rank has as a whole (FSDP2), with a Checkpointer, and a trace of its steps."""

import argparse
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import edl.torch as elastic

BATCH = 96


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--write-every", type=float)
    parser.add_argument("--pause", type=float)
    parser.add_argument("--trace", type=Path)
    parser.add_argument("--in-pod", type=int, default=0, help="shards: so many ranks share the model, others copy it")
    return parser.parse_args()


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 37), torch.nn.Tanh(), torch.nn.Linear(37, 1))


def adam(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=0.01, foreach=False)


def loss_of(model: torch.nn.Module, step: int, rank: int = 0, world: int = 1) -> torch.Tensor:
    data = torch.randn(BATCH, 16, generator=torch.Generator().manual_seed(step))
    share = data[BATCH * rank // world : BATCH * (rank + 1) // world]
    return torch.nn.functional.mse_loss(model(share), share.sum(dim=1, keepdim=True).sin())


def alone() -> Iterator[float]:
    """What one worker has after each step that was never disturbed."""
    model = network()
    optimizer = adam(model)
    step = 0
    while True:
        step += 1
        optimizer.zero_grad()
        loss_of(model, step).backward()
        optimizer.step()
        yield sum(weight.double().sum().item() for weight in model.parameters())


def main() -> None:
    options = arguments()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    model = network()
    hybrid = (world // options.in_pod, options.in_pod) if options.in_pod else (world,)
    fully_shard(model, mesh=init_device_mesh("cpu", hybrid, mesh_dim_names=("copies", "shards")[-len(hybrid) :]))
    optimizer = adam(model)
    checkpoints = elastic.Checkpointer(options.checkpoint, every=options.every, write_every=options.write_every)
    first = checkpoints.load(model=model, optimizer=optimizer)
    print(f"rank {rank} of {world} from step {first}, {checkpoints.source or 'the beginning'}", flush=True)
    for step in range(first + 1, options.steps + 1):
        started = time.monotonic()
        optimizer.zero_grad()
        loss_of(model, step, rank, world).backward()
        optimizer.step()
        line = {"at": time.monotonic(), "step": step, "rank": rank, "world": world}
        line["model"] = sum(weight.full_tensor().double().sum().item() for weight in model.parameters())
        with (options.trace / f"{os.getpid()}.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
        checkpoints.save(step, model=model, optimizer=optimizer)
        time.sleep(max(0.0, options.pause - (time.monotonic() - started)))


if __name__ == "__main__":
    main()
