"""A plain DistributedDataParallel script with a checkpoint every few steps: torchrun, EDL and DLRover run it."""

import argparse
import os
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from bench.frameworks.scripts.workload import Notes, arguments, batches_from, compute, network
from torch.nn.parallel import DistributedDataParallel


def started() -> float:
    """When this group began, the same for all of it."""
    now = torch.tensor([time.monotonic()], dtype=torch.float64)
    dist.broadcast(now, 0)
    return float(now)


def load(path: Path, model: Any, optimizer: Any) -> int:
    if not path.exists():
        return 0
    saved = torch.load(path, weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return int(saved["step"])


def save(path: Path, step: int, model: Any, optimizer: Any) -> None:
    """First beside, then in place: whoever is killed here leaves the last checkpoint whole."""
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, beside)
    beside.replace(path)


def main(options: argparse.Namespace) -> None:
    dist.init_process_group("gloo")
    rank, world, generation = dist.get_rank(), dist.get_world_size(), started()
    model, optimizer = network(options.width)
    step = load(options.checkpoint, model, optimizer)
    parallel, notes = DistributedDataParallel(model), Notes(options.trace)
    for epoch, inputs, wanted, samples in batches_from(options, step, rank, world):
        notes.took(step + 1, generation, epoch, samples)
        optimizer.zero_grad()
        compute(parallel, inputs, wanted, options.sample_ms).backward()
        optimizer.step()
        step += 1
        notes.did(step, generation, rank, world)
        if rank == 0 and step % options.every == 0:
            save(options.checkpoint, step, model, optimizer)


if __name__ == "__main__":
    main(arguments())
