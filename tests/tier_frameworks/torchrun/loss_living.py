"""A loop like that of `examples/pytorch/elastic.py` over data that can be learnt; the loss after every step is noted.

The loss is that of samples which nobody trains with, so that it is the same on all workers.
"""

import argparse
import sys
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader

sys.path.insert(0, str(Path(__file__).parents[3]))

from examples.pytorch.elastic import Waves, arguments, trace

import edl.torch as elastic

HELD_OUT = range(100_000, 100_256)


class Slopes(Waves):
    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor, int]:
        data, _, index = super().__getitem__(index)
        return data, data[:4].sum(dim=0, keepdim=True).tanh(), index


def train(options: argparse.Namespace) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, options.width), torch.nn.Tanh(), torch.nn.Linear(options.width, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    data = Slopes(options.samples)
    inputs, wanted = (torch.stack([data[index][part] for index in HELD_OUT]) for part in (0, 1))

    def note() -> None:
        with torch.no_grad():
            loss = torch.nn.functional.mse_loss(model(inputs), wanted).item()
        trace(options, "did", loss=loss, model=sum(w.double().sum().item() for w in model.parameters()))

    model, optimizer, loader = elastic.prepare(model, optimizer, DataLoader(data, options.batch, shuffle=True))
    elastic.on_commit(note)
    for epoch in elastic.epochs(options.epochs):
        for share, goal, samples in loader:
            started = time.monotonic()
            trace(options, "took", epoch=epoch, samples=samples.tolist())
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(share), goal).backward()
            optimizer.step()
            time.sleep(max(0.0, options.pause - (time.monotonic() - started)))


if __name__ == "__main__":
    train(arguments())
