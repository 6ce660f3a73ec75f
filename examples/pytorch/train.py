"""A plain DistributedDataParallel script: nothing in it knows of EDL.

It trains a small network on made-up data, saves a checkpoint every few steps and starts from the last one. That
is all that a script needs in order to be elastic under torchrun: whenever workers come or go, torchrun starts it anew.

    torchrun --nproc-per-node 2 train.py --steps 200 --checkpoint /tmp/model.pt
"""

import argparse
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=96, help="of all workers together")
    parser.add_argument("--checkpoint", type=Path, default=Path("model.pt"))
    parser.add_argument("--every", type=int, default=10, help="steps between checkpoints")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds that a step takes at least")
    parser.add_argument("--trace", type=Path, help="a directory: every worker writes there when it did which step")
    return parser.parse_args()


def batch_of(step: int, rank: int, world: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """This worker's share of the global batch of a step, which is the same whatever the number of workers."""
    data = torch.randn(size, 16, generator=torch.Generator().manual_seed(step))
    share = data[size * rank // world : size * (rank + 1) // world]
    return share, share.sum(dim=1, keepdim=True).sin()


def network() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    return model, torch.optim.SGD(model.parameters(), lr=0.05)


def save(path: Path, step: int, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """First beside, then in place: whoever is killed here leaves the last checkpoint whole."""
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, beside)
    beside.replace(path)


def main() -> None:
    options = arguments()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    model, optimizer = network()
    step = 0
    if options.checkpoint.exists():
        saved = torch.load(options.checkpoint, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step = saved["step"]
    parallel = DistributedDataParallel(model)
    if rank == 0:
        print(f"from step {step} with {world} workers", flush=True)
    while step < options.steps:
        started = time.monotonic()
        inputs, wanted = batch_of(step, rank, world, options.batch)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(parallel(inputs), wanted)
        loss.backward()
        optimizer.step()
        step += 1
        if rank == 0 and (step % options.every == 0 or step == options.steps):
            save(options.checkpoint, step, model, optimizer)
            print(f"step {step} of {options.steps} with {world} workers: loss {loss.item():.4f}", flush=True)
        if options.trace:
            trace(options.trace, step, rank, world)
        time.sleep(max(0.0, options.pause - (time.monotonic() - started)))
    dist.barrier()  # nobody leaves while others still exchange gradients
    del parallel  # first: torch can hang if a group goes with the model that uses it (pytorch#56297)
    dist.destroy_process_group()


def trace(folder: Path, step: int, rank: int, world: int) -> None:
    with (folder / f"{os.getpid()}.jsonl").open("a") as file:
        file.write(json.dumps({"at": time.monotonic(), "step": step, "rank": rank, "world": world}) + "\n")


if __name__ == "__main__":
    main()
