"""Elastic training of a model that the processes of a pod share (`fully_shard`), with a whole model in every pod.

torchrun --nproc-per-node 2 elastic_sharded.py     # in the pods of an ElasticJob, or on a laptop
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import torch
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, TensorDataset

import edl.torch as elastic


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=96, help="of all workers together")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds that a step takes at least")
    parser.add_argument("--checkpoint", type=Path, help="a file, for the case that all workers are lost")
    parser.add_argument("--every", type=int, default=10, help="steps between checkpoints")
    parser.add_argument("--trace", type=Path, help="a directory: every worker writes there what it did when")
    return parser.parse_args()


def data(samples: int) -> TensorDataset:
    """Made up; each sample says which it is."""
    inputs = torch.randn(samples, 16, generator=torch.Generator().manual_seed(1))
    return TensorDataset(inputs, inputs[:, :4].sum(dim=1, keepdim=True).tanh(), torch.arange(samples))


def network() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 37), torch.nn.Tanh(), torch.nn.Linear(37, 1))


def main() -> None:
    options = arguments()
    model = network()
    mesh = elastic.local_mesh()
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    loader = DataLoader(data(options.samples), options.batch, shuffle=True)
    model, optimizer, loader = elastic.prepare(model, optimizer, loader)
    if options.checkpoint:
        elastic.checkpoint(options.checkpoint, every=options.every)
    if options.trace:
        elastic.on_commit(lambda: trace(options, "did", model=total(model)))
    for epoch in elastic.epochs(options.epochs):
        for inputs, wanted, samples in loader:
            started = time.monotonic()
            trace(options, "took", epoch=epoch, samples=samples.tolist())
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(inputs), wanted).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            time.sleep(max(0.0, options.pause - (time.monotonic() - started)))
    print(f"rank {elastic.world().rank} of {elastic.world().size} is done: {total(model):.6f}", flush=True)


def total(model: torch.nn.Module) -> float:
    """The same on all workers that share a model, which all call it."""
    weights = sum(weight.full_tensor().double().sum().item() for weight in model.parameters())
    return float(weights + sum(buffer.double().sum().item() for buffer in model.buffers()))


def trace(options: argparse.Namespace, what: str, **more: Any) -> None:
    """`took` is written before a step, for the step that comes next; `did` when it happened."""
    if not options.trace:
        return
    world = elastic.world()
    line = {"at": time.monotonic(), "what": what, "step": elastic.committed_step() + (what == "took")}
    with (options.trace / f"{os.getpid()}.jsonl").open("a") as file:
        more |= {"rank": world.rank, "world": world.size, "generation": world.generation}
        file.write(json.dumps(line | more) + "\n")


if __name__ == "__main__":
    main()
