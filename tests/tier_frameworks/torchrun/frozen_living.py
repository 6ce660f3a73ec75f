"""A training of which most is frozen, with places at which a test can hold a worker that passes state ahead (see
`aimed`), and with writes to the frozen part that a test asks for.

A worker notes a digest of its whole state after every step.
"""

import argparse
import hashlib
import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

sys.path.insert(0, str(Path(__file__).parents[3]))

from examples.pytorch import elastic as example
from examples.pytorch import elastic_sharded

import edl.torch as elastic
from edl.torch.ahead import passing
from edl.torch.ahead.copies import Received, Sent
from edl.torch.ahead.fingerprint import BLOCK
from edl.torch.ahead.views import Views
from edl.torch.rounds import transfer
from edl.torch.rounds.group import Group
from tests.tier_frameworks.torchrun.aimed import FOLDER, reach

ROWS, COLUMNS = 16 * 1024, 128  # 8 MiB


class Network(torch.nn.Module):  # type: ignore[misc,unused-ignore]  # torch may not be installed where types are checked
    """Weights are never trained, but for a few."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = torch.nn.Embedding(ROWS, COLUMNS)
        self.table.weight.requires_grad_(False)
        self.register_buffer("mask", torch.rand(1000))
        self.trained = torch.nn.Linear(16, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        rows: torch.Tensor = self.table(torch.arange(len(inputs)))
        result: torch.Tensor = self.trained(inputs) + rows[:, :1]
        return result


class Mean:
    """Of something; its state is two tensors."""

    def __init__(self) -> None:
        self.state = {"first": torch.zeros(5), "never": torch.ones(300_000)}

    def state_dict(self) -> dict[str, torch.Tensor]:
        return self.state

    def load_state_dict(self, state: dict[str, torch.Tensor]) -> None:
        self.state = state


def digest(*objects: Any) -> int:
    found = hashlib.blake2b(digest_size=6)
    for _, tensor in transfer.tensors([one.state_dict() for one in objects]):
        found.update(transfer.flat(tensor).numpy())
    return int.from_bytes(found.digest(), "big")


def train(options: argparse.Namespace) -> None:
    model, mean = Network(), Mean()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    loader = DataLoader(example.Waves(options.samples), options.batch, shuffle=True)
    model, optimizer, loader = elastic.prepare(model, optimizer, loader)
    elastic.register("mean", mean)

    def committed() -> None:
        mean.state["first"] += 1
        write(model.table.weight, elastic.committed_step())
        example.trace(options, "did", model=digest(model, optimizer, mean))

    elastic.on_commit(committed)
    for epoch in elastic.epochs(options.epochs):
        for inputs, wanted, samples in loader:
            started = time.monotonic()
            example.trace(options, "took", epoch=epoch, samples=samples.tolist())
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(inputs), wanted).backward()
            optimizer.step()
            time.sleep(max(0.0, options.pause - (time.monotonic() - started)))


def write(weight: torch.nn.Parameter, step: int) -> None:
    """By all workers after the same step, if a test wishes it."""
    file = Path(os.environ[FOLDER]) / "write"
    if not file.exists() or file.read_text() not in {f"{step} {kind}" for kind in WRITES}:
        return
    WRITES[file.read_text().partition(" ")[2]](weight)


def _in_place(weight: torch.nn.Parameter) -> None:
    with torch.no_grad():
        weight[3] += 1


def _through_data(weight: torch.nn.Parameter) -> None:
    weight.data[-1, -1] *= -1


def _other_memory(weight: torch.nn.Parameter) -> None:
    weight.data = weight.data + 1


WRITES = {"in place": _in_place, "through data": _through_data, "other memory": _other_memory}


def hold() -> None:
    """From now on a test can, in the middle of what is passed ahead and at its end."""
    chunks, receive, pass_ahead = passing._chunks, Group.receive, passing.pass_ahead

    def sending(tensor: torch.Tensor) -> Iterator[Any]:
        for number, chunk in enumerate(chunks(tensor)):
            if number == 2:
                reach("passing")
            yield chunk

    def receiving(self: Group, tensor: torch.Tensor, rank: int) -> None:
        if threading.current_thread() is not threading.main_thread() and tensor.dtype is torch.uint8:
            reach("receiving")
        receive(self, tensor, rank)

    def passed(group: Group, views: Views, haste: passing.Haste) -> Sent | Received | None:
        result = pass_ahead(group, views, haste)
        if isinstance(result, Sent):
            reach("passed")
        return result

    passing._chunks, passing.CHUNK = sending, BLOCK
    Group.receive = receiving  # type: ignore[method-assign]  # meant
    passing.pass_ahead = passed


class Frozen(torch.nn.Module):  # type: ignore[misc,unused-ignore]  # torch may not be installed where types are checked
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(1024, 512), requires_grad=False)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs + self.weight[0, 0]


def sharded() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 37), torch.nn.Tanh(), torch.nn.Linear(37, 1), Frozen())


def main() -> None:
    logging.basicConfig(level=logging.INFO)  # shown when a test fails
    hold()
    if os.environ.get("SHARDED"):
        elastic_sharded.network = sharded
        elastic_sharded.main()
    else:
        train(example.arguments())


if __name__ == "__main__":
    main()
