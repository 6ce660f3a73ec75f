"""The same training by torchft, after its own example: every replica is a group of one worker, and heals from a peer.

Its sampler shares out the data among as many groups as there can be; each takes batches of its own share. Gradients are
summed by its manager, in one message: torchft's DistributedDataParallel (0.2) ends the survivors of a kill with an
AssertionError.
"""

import argparse
import os
from collections.abc import Sequence
from typing import Any

import torch
from bench.frameworks.scripts.workload import Notes, Samples, arguments, compute, network
from torch.distributed import TCPStore
from torchft import DistributedSampler, Manager, Optimizer, ProcessGroupGloo


def manager_of(model: Any, optimizer: Any, replica: int) -> Manager:
    def load(state: dict[str, Any]) -> None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    def state() -> dict[str, Any]:
        return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    made = Manager(
        pg=ProcessGroupGloo(),
        min_replica_size=1,
        load_state_dict=load,
        state_dict=state,
        replica_id=f"replica_{replica}",
        rank=0,
        world_size=1,
        store_addr="127.0.0.1",
        store_port=store.port,
        hostname="127.0.0.1",
    )
    made.store = store  # it must live as long
    return made


def average(manager: Manager, parameters: Sequence[torch.nn.Parameter]) -> None:
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
    manager.allreduce(flat).wait()
    parts = flat.split([gradient.numel() for gradient in gradients])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient))


def main(options: argparse.Namespace) -> None:
    replica = int(os.environ["REPLICA"])
    model, optimizer = network(options.width)
    manager = manager_of(model, optimizer, replica)
    stepping, parameters = Optimizer(manager, optimizer), list(model.parameters())
    data = Samples(options.samples)
    sampler = DistributedSampler(
        data, replica_rank=replica, num_replica_groups=options.shares, group_rank=0, num_replicas=1, shuffle=True
    )
    loader = torch.utils.data.DataLoader(data, options.batch // options.shares, sampler=sampler)
    notes, epoch = Notes(options.trace), 0
    while True:
        sampler.set_epoch(epoch)
        for inputs, wanted, samples in loader:
            stepping.zero_grad()
            before = manager.current_step()
            compute(model, inputs, wanted, options.sample_ms).backward()
            average(manager, parameters)
            stepping.step()
            if manager.current_step() > before and manager.is_participating():
                notes.took(manager.current_step(), 0, epoch, samples.tolist())
                notes.did(manager.current_step(), 0, manager.participating_rank() or 0, manager.num_participants())
        epoch += 1


if __name__ == "__main__":
    main(arguments())
