"""The plain script with our Checkpointer in place of its own files: it copies to memory after every step."""

import argparse

import torch.distributed as dist
from bench.frameworks.scripts.ddp import started
from bench.frameworks.scripts.workload import Notes, arguments, batches_from, compute, network
from torch.nn.parallel import DistributedDataParallel

import edl.torch as elastic


def main(options: argparse.Namespace) -> None:
    dist.init_process_group("gloo")
    rank, world, generation = dist.get_rank(), dist.get_world_size(), started()
    model, optimizer = network(options.width)
    parallel, notes = DistributedDataParallel(model), Notes(options.trace)
    checkpoints = elastic.Checkpointer(options.checkpoint)
    step = checkpoints.load(model=parallel, optimizer=optimizer)
    for epoch, inputs, wanted, samples in batches_from(options, step, rank, world):
        notes.took(step + 1, generation, epoch, samples)
        optimizer.zero_grad()
        compute(parallel, inputs, wanted, options.sample_ms).backward()
        optimizer.step()
        step += 1
        notes.did(step, generation, rank, world)
        checkpoints.save(step, model=parallel, optimizer=optimizer)


if __name__ == "__main__":
    main(arguments())
