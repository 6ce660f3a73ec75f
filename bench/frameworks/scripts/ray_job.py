"""The driver of the same training by Ray Train: a checkpoint is reported every few steps, and the group starts anew
from it whenever nodes come or go."""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from bench.frameworks.scripts.ddp import load, save, started
from bench.frameworks.scripts.workload import Notes, arguments, batches_from, compute, network
from ray import train
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer, prepare_model


def loop(config: dict[str, Any]) -> None:
    torch.set_num_threads(1)
    options = argparse.Namespace(**config)
    rank, world, generation = train.get_context().get_world_rank(), train.get_context().get_world_size(), started()
    model, optimizer = network(options.width)
    step = 0
    if (found := train.get_checkpoint()) is not None:
        with found.as_directory() as folder:
            step = load(Path(folder) / "saved", model, optimizer)
    parallel, notes = prepare_model(model), Notes(options.trace)
    for epoch, inputs, wanted, samples in batches_from(options, step, rank, world):
        notes.took(step + 1, generation, epoch, samples)
        optimizer.zero_grad()
        compute(parallel, inputs, wanted, options.sample_ms).backward()
        optimizer.step()
        step += 1
        notes.did(step, generation, rank, world)
        if step % options.every == 0:
            report(step, model, optimizer, rank)


def report(step: int, model: Any, optimizer: Any, rank: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        if rank == 0:
            save(Path(folder) / "saved", step, model, optimizer)
        train.report({"step": step}, checkpoint=Checkpoint.from_directory(folder) if rank == 0 else None)


def main() -> None:
    bounds = argparse.ArgumentParser()
    bounds.add_argument("--least", type=int)
    bounds.add_argument("--most", type=int)
    found, sys.argv[1:] = bounds.parse_known_args()
    options = arguments()
    scaling = ScalingConfig(num_workers=(found.least, found.most), elastic_resize_monitor_interval_s=1.0)
    run = RunConfig(name="bench", storage_path=str(options.checkpoint), failure_config=FailureConfig(max_failures=-1))
    TorchTrainer(
        loop,
        train_loop_config=vars(options),
        scaling_config=scaling,
        run_config=run,
        torch_config=TorchConfig(backend="gloo"),
    ).fit()


if __name__ == "__main__":
    main()
