"""How long `save` of a Checkpointer keeps a script waiting, beside a plain copy of the same state in the same process.

One worker and its agent's memory, one thread, states of several sizes; medians, interleaved. Needs torch: `make
bench-frameworks`.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable

import torch

import edl.torch as elastic
from edl.runtime.torch.checkpoint_memory import MEMORY, CheckpointMemory

NEVER = 1e9  # seconds between files: the disk is not measured


def timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return (time.perf_counter() - began) * 1000


def measure(megabytes: int, rounds: int, memory: CheckpointMemory) -> tuple[list[float], list[float]]:
    """Milliseconds of `save` and of the copy."""
    state = torch.randn(megabytes * 250_000)
    copy = torch.zeros_like(state)
    saves, copies = [], []
    with tempfile.TemporaryDirectory() as folder:
        checkpoints = elastic.Checkpointer(folder, write_every=NEVER, env={MEMORY: memory.link})
        for step in range(rounds + 3):  # the first ones fill memory that is new
            copies.append(timed(lambda: copy.copy_(state)))
            saves.append(timed(lambda step=step: checkpoints.save(step, state=state)))  # type: ignore[misc]  # mypy: a default is no argument
        checkpoints.flush()
    return saves[3:], copies[3:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    memory = CheckpointMemory()
    for megabytes in (6, 200, 1000):
        saves, copies = (statistics.median(times) for times in measure(megabytes, options.rounds, memory))
        print(
            f"save of {megabytes:>4} MB: {saves:6.1f} ms, a copy {copies:6.1f} ms, {saves / copies:.2f} times as long"
        )
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    memory.close()


if __name__ == "__main__":
    main()
