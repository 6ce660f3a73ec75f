"""DistributedDataParallel as an EasyDL job: torchrun starts it anew whenever workers come or go, so it goes on from its
last checkpoint; and the first of its workers says how fast they are together, by which the job's trainer plans.

    torchrun --nproc-per-node 2 examples/easydl/allreduce.py --steps 200 --checkpoint /tmp/model.pt
"""

import argparse
import os
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from edl.progress import Progress

BATCH = 32  # of every worker


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--checkpoint", type=Path, default=Path("model.pt"))
    parser.add_argument("--every", type=int, default=10, help="steps between checkpoints")
    parser.add_argument("--pause", type=float, default=0.0, help="pretends that a step takes longer by so many seconds")
    return parser.parse_args()


def network() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    return model, torch.optim.SGD(model.parameters(), lr=0.05)


def batch_of(step: int, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    inputs = torch.randn(BATCH, 16, generator=torch.Generator().manual_seed(1000 * step + rank))
    return inputs, inputs.sum(dim=1, keepdim=True).sin()


def save(path: Path, state: dict[str, Any]) -> None:
    """First beside, then in place: whoever is killed here leaves the last checkpoint whole."""
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    torch.save(state, beside)
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
        step = saved["step"]
    parallel, progress = DistributedDataParallel(model), Progress()
    while step < options.steps:
        inputs, wanted = batch_of(step, rank)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(parallel(inputs), wanted)
        loss.backward()
        optimizer.step()
        step += 1
        time.sleep(options.pause)
        if rank == 0:
            progress.add(samples=BATCH * world, loss=loss.item())
            if step % options.every == 0 or step == options.steps:
                save(options.checkpoint, {"step": step, "workers": world, "model": model.state_dict()})
                print(f"step {step} of {options.steps} with {world} workers: loss {loss.item():.4f}", flush=True)
    dist.barrier()  # nobody leaves while others still exchange gradients
    del parallel  # first: torch can hang if a group goes with the model that uses it (pytorch#56297)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
