"""`examples/pytorch/elastic_sharded.py` with running means, and an evaluation at the beginning of every epoch."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))

from examples.pytorch import elastic_sharded

import edl.torch as elastic


def network() -> torch.nn.Sequential:
    torch.manual_seed(0)
    norm = [torch.nn.Unflatten(1, (6, 6)), torch.nn.BatchNorm1d(6), torch.nn.Flatten()]  # of single samples, too
    return torch.nn.Sequential(torch.nn.Linear(16, 36), *norm, torch.nn.Tanh(), torch.nn.Linear(36, 1))


def main() -> None:
    prepare, epochs = elastic.prepare, elastic.epochs
    given: list[Any] = []

    def noted(*args: Any, **options: Any) -> Any:
        given[:] = prepare(*args, **options)
        return tuple(given)

    def evaluated(count: int) -> Iterator[int]:
        for epoch in epochs(count):
            model, _, loader = given
            model.eval()
            with torch.no_grad():
                for inputs, _, _ in loader:
                    model(inputs)
            model.train()
            yield epoch

    elastic_sharded.network, elastic.epochs = network, evaluated
    elastic.prepare = noted
    elastic_sharded.main()


if __name__ == "__main__":
    main()
