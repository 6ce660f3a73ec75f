"""A plain training loop and three lines of EDL: workers come and go, and it never stops, skips or repeats anything.

python elastic.py --epochs 2                       # on a laptop
torchrun --nproc-per-node 2 elastic.py             # in the pods of an ElasticJob
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

import edl.torch as elastic


class Waves(Dataset):  # type: ignore[type-arg,misc,unused-ignore]  # torch may not be installed where types are checked
    """Made-up data; each sample says which it is."""

    def __init__(self, samples: int) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor, int]:
        data = torch.randn(16, generator=torch.Generator().manual_seed(index))
        return data, data.sum(dim=0, keepdim=True).sin(), index


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=96, help="of all workers together")
    parser.add_argument("--width", type=int, default=64, help="of the network")
    parser.add_argument("--loaders", type=int, default=0, help="processes that load data, for each worker")
    parser.add_argument("--micro", type=int, default=0, help="samples that a worker computes at once, at most")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds that a step takes at least")
    parser.add_argument("--checkpoint", type=Path, help="a file, for the case that all workers are lost")
    parser.add_argument("--every", type=int, default=10, help="steps between checkpoints")
    parser.add_argument("--trace", type=Path, help="a directory: every worker writes there what it did when")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, options.width), torch.nn.Tanh(), torch.nn.Linear(options.width, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loader = DataLoader(Waves(options.samples), options.batch, shuffle=True, num_workers=options.loaders)
    model, optimizer, loader = elastic.prepare(model, optimizer, loader, micro_batch=options.micro)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 50, 0.9)
    elastic.register("schedule", schedule)
    if options.checkpoint:
        elastic.checkpoint(options.checkpoint, every=options.every)
    if options.trace:
        elastic.on_commit(lambda: trace(options, "did", model=sum(w.double().sum().item() for w in model.parameters())))
    for epoch in elastic.epochs(options.epochs):
        for inputs, wanted, samples in loader:
            started = time.monotonic()
            trace(options, "took", epoch=epoch, samples=samples.tolist())
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(inputs), wanted).backward()
            optimizer.step()
            schedule.step()
            time.sleep(max(0.0, options.pause - (time.monotonic() - started)))
    if options.trace:
        result = {"model": model.state_dict(), "lr": schedule.get_last_lr(), "step": elastic.committed_step()}
        torch.save(result, options.trace / f"{os.getpid()}.pt")
    print(f"rank {elastic.world().rank} of {elastic.world().size} is done", flush=True)


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
