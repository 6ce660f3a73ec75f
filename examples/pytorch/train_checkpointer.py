"""A plain DistributedDataParallel script whose checkpoints are in memory: it saves after every step, in milliseconds.

The lines with `checkpoints` are all that EDL adds. Whenever workers come, go or are killed, the script is started anew
and goes on with the step after the last one that was saved.

    torchrun --nproc-per-node 2 train_checkpointer.py --steps 200 --checkpoint /tmp/checkpoints
"""

import argparse
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import edl.torch as elastic


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=96, help="of all workers together")
    parser.add_argument("--width", type=int, default=64, help="of the network")
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoints"), help="a folder")
    parser.add_argument("--every", type=int, default=1, help="steps between copies to memory")
    parser.add_argument("--write-every", type=float, default=30.0, help="seconds between files")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds that a step takes at least")
    parser.add_argument("--trace", type=Path, help="a directory: every worker writes there when it did which step")
    return parser.parse_args()


def batch_of(step: int, rank: int, world: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """This worker's share of the global batch of a step, which is the same whatever the number of workers."""
    data = torch.randn(size, 16, generator=torch.Generator().manual_seed(step))
    share = data[size * rank // world : size * (rank + 1) // world]
    return share, share.sum(dim=1, keepdim=True).sin()


def main() -> None:
    options = arguments()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, options.width), torch.nn.Tanh(), torch.nn.Linear(options.width, 1))
    parallel = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    checkpoints = elastic.Checkpointer(options.checkpoint, every=options.every, write_every=options.write_every)
    first = checkpoints.load(model=parallel, optimizer=optimizer)
    print(f"rank {rank} of {world} from step {first}, {checkpoints.source or 'the beginning'}", flush=True)
    for step in range(first + 1, options.steps + 1):
        started = time.monotonic()
        inputs, wanted = batch_of(step, rank, world, options.batch)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(parallel(inputs), wanted).backward()
        optimizer.step()
        if options.trace:
            trace(options.trace, step, rank, world, model)
        checkpoints.save(step, model=parallel, optimizer=optimizer)
        time.sleep(max(0.0, options.pause - (time.monotonic() - started)))
    dist.barrier()  # nobody leaves while others still exchange gradients
    del parallel  # first: torch can hang if a group goes with the model that uses it (pytorch#56297)
    dist.destroy_process_group()


def trace(folder: Path, step: int, rank: int, world: int, model: torch.nn.Module) -> None:
    line = {"at": time.monotonic(), "step": step, "rank": rank, "world": world}
    line["model"] = sum(weight.double().sum().item() for weight in model.parameters())
    with (folder / f"{os.getpid()}.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
