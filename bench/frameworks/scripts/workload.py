"""What all contenders train: the same model, the same data, the same cost of a sample, one line for every step done.

Needs torch alone, for it runs in the virtualenvs of all contenders. The compute of a device is stood in for by waiting
a time for each sample of a worker's share, so that workers beyond the machine's cores still make a job faster.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

FEATURES = 16


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trace", type=Path, required=True, help="a folder: every worker writes there what it did")
    parser.add_argument("--checkpoint", type=Path, required=True, help="a file, or a folder of the contender's own")
    parser.add_argument("--every", type=int, default=50, help="steps between checkpoints, if it writes any")
    parser.add_argument("--batch", type=int, default=96, help="of all workers together")
    parser.add_argument("--samples", type=int, default=960, help="of an epoch")
    parser.add_argument("--width", type=int, default=690, help="of the network")
    parser.add_argument("--frozen", type=int, default=0, help="weights that are never trained, where a script has any")
    parser.add_argument("--sample-ms", type=float, default=0.0, help="what a sample takes a worker besides")
    parser.add_argument("--shares", type=int, default=3, help="into how many a contender of fixed shares divides data")
    return parser.parse_args()


def network(width: int) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    wide, narrow = torch.nn.Linear(FEATURES, width), torch.nn.Linear(width, 1)
    model = torch.nn.Sequential(wide, torch.nn.Tanh(), torch.nn.Linear(width, width), torch.nn.Tanh(), narrow)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-3)


class Samples(Dataset):  # type: ignore[type-arg,misc,unused-ignore]  # torch may not be installed where types are checked
    """Each says which it is."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._inputs = torch.randn(count, FEATURES, generator=torch.Generator().manual_seed(1))

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor, int]:
        data = self._inputs[index]
        return data, data[:4].sum(dim=0, keepdim=True).tanh(), index


class Share:
    """The samples of one worker, batch by batch: a step's batch depends on the step alone, and each worker takes its
    part. The order of an epoch is a permutation, as DistributedSampler's is."""

    def __init__(self, options: argparse.Namespace, step: int, rank: int, world: int) -> None:
        self._samples, self._batch = int(options.samples), int(options.batch)
        self._step, self._rank, self._world = step, rank, world
        self._of_an_epoch = -(-self._samples // self._batch)

    def epoch(self, step: int) -> int:
        return step // self._of_an_epoch

    def __iter__(self) -> Iterator[list[int]]:
        epoch, first = divmod(self._step, self._of_an_epoch)
        while True:
            generator = torch.Generator().manual_seed(epoch)
            order = torch.randperm(self._samples, generator=generator).tolist()
            for start in range(first * self._batch, self._samples, self._batch):
                whole = order[start : start + self._batch]
                yield whole[len(whole) * self._rank // self._world : len(whole) * (self._rank + 1) // self._world]
            epoch, first = epoch + 1, 0


def batches_from(
    options: argparse.Namespace, step: int, rank: int, world: int
) -> Iterator[tuple[int, torch.Tensor, torch.Tensor, list[int]]]:
    """Of a script that restarts from checkpoints, after so many steps: epoch, inputs, what is wanted, which samples."""
    share = Share(options, step, rank, world)
    for inputs, wanted, samples in DataLoader(Samples(options.samples), batch_sampler=share):
        yield share.epoch(step), inputs, wanted, samples.tolist()
        step += 1


def compute(model: Any, inputs: torch.Tensor, wanted: torch.Tensor, sample_ms: float) -> torch.Tensor:
    """The loss, after the time that a device would take for forward and backward pass."""
    if sample_ms:
        time.sleep(len(inputs) * sample_ms / 1000)
    return torch.nn.functional.mse_loss(model(inputs), wanted)


class Notes:
    """`generation`: a number that grows whenever a group begins anew from a checkpoint or with other members. Steps
    count from 1."""

    def __init__(self, folder: Path) -> None:
        self._file = (folder / f"{os.getpid()}.jsonl").open("a", buffering=1)

    def took(self, step: int, generation: float, epoch: int, samples: Sequence[int]) -> None:
        """Before the step: who is killed right after it has no more time to say so."""
        self._write("took", step, generation, epoch=epoch, samples=list(samples))

    def did(self, step: int, generation: float, rank: int, world: int) -> None:
        """It happened."""
        self._write("did", step, generation, cpu=time.process_time(), rank=rank, world=world)

    def _write(self, what: str, step: int, generation: float, **more: Any) -> None:
        line = {"at": time.monotonic(), "what": what, "step": step, "generation": generation}
        self._file.write(json.dumps(line | more) + "\n")
