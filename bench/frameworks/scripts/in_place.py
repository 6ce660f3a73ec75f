"""The same training by `edl.torch`: workers live on through every change."""

import argparse

import torch
from bench.frameworks.scripts.workload import Notes, Samples, arguments, compute, network
from torch.utils.data import DataLoader

import edl.torch as elastic

EPOCHS = 1_000_000


def freeze(model: torch.nn.Module, count: int) -> None:
    """Gives it so many weights that are never trained."""
    weights = torch.rand(count, generator=torch.Generator().manual_seed(2))
    model.register_parameter("frozen", torch.nn.Parameter(weights, requires_grad=False))


def main(options: argparse.Namespace) -> None:
    model, optimizer = network(options.width)
    if options.frozen:
        freeze(model, options.frozen)
    loader = DataLoader(Samples(options.samples), options.batch, shuffle=True)
    model, optimizer, loader = elastic.prepare(model, optimizer, loader)
    notes = Notes(options.trace)

    def note() -> None:
        world = elastic.world()
        notes.did(elastic.committed_step(), world.generation, world.rank, world.size)

    elastic.on_commit(note)
    for epoch in elastic.epochs(EPOCHS):
        for inputs, wanted, samples in loader:
            notes.took(elastic.committed_step() + 1, elastic.world().generation, epoch, samples.tolist())
            optimizer.zero_grad()
            compute(model, inputs, wanted, options.sample_ms).backward()
            optimizer.step()


if __name__ == "__main__":
    main(arguments())
