"""A loader that yields this worker's part of each global batch of a stream, whose shards are leased to the workers.

Before each batch the workers tell each other how much they read, so that every batch is counted with its true size and
all know where each shard stands. Batches differ with the number of workers; that each sample is trained once does not.
"""

import logging
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader

from edl.torch.cursor import Part, share
from edl.torch.data.shard_ledger import ShardLedger
from edl.torch.data.shards import Lease, Reading, Request, ShardReader
from edl.torch.engine import Engine

log = logging.getLogger(__name__)

NAME = "edl.torch stream"


class _Requests:
    """The sampler of the inner loader. It reads ahead; nothing depends on that."""

    def __init__(self) -> None:
        self.ask: Any = lambda: iter(())

    def __iter__(self) -> Iterator[Request]:
        return iter(self.ask())


class StreamLoader:
    """What is not defined here is the script's DataLoader's."""

    def __init__(self, loader: DataLoader[Any], engine: Engine) -> None:
        self._loader, self._engine = loader, engine
        self._tuned = int(loader.batch_size)
        self._ledger = ShardLedger(int(loader.dataset.shards()))
        self._requests, self._turn = _Requests(), 0
        self._inner = _with_requests(loader, self._requests)
        engine.fed = True
        engine.state.register(NAME, self._ledger)
        engine.on_commit.append(self._ledger.commit)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def __iter__(self) -> Iterator[Any]:
        self._engine.join()
        return self._train() if torch.is_grad_enabled() else self._evaluate()

    def _train(self) -> Iterator[Any]:
        engine, cursor = self._engine, self._engine.state.cursor
        engine.settle()
        epoch = cursor.epoch
        while cursor.epoch == epoch:
            for part, data in self._from_committed():
                engine.handed_out(part)
                began = engine.rewinds
                yield data
                engine.settle()
                if engine.rewinds != began:
                    break

    def _from_committed(self) -> Iterator[tuple[Part, Any]]:
        """Until the stream ends, which is the end of the epoch, or the members change."""
        engine, cursor, world = self._engine, self._engine.state.cursor, self._engine.world
        batch = engine.growth.batch_of(self._tuned, world.size)
        number, start = cursor.batch, cursor.sample
        self._ledger.lease(world.size)
        for reading in self._readings(len(share(batch, world.rank, world.size)), world.rank):
            said = engine.tell_all([reading.count, reading.ended, reading.offset])
            if said is None:
                engine.settle()
                return
            more, whole = self._ledger.read(said), sum(count for count, _, _ in said)
            if whole:
                yield Part(number, (), reading.count, whole, start=start), reading.data
                number, start = number + 1, start + whole
            elif not more:
                self._ledger.next_epoch()
                cursor.next_epoch()
                return

    def _readings(self, count: int, rank: int) -> Iterator[Reading]:
        cursor = self._engine.state.cursor
        self._turn += 1
        turn, seed, epoch = self._turn, cursor.seed, cursor.epoch

        def ask() -> Iterator[Request]:
            while True:
                yield Request(turn, seed, epoch, self._ledger.leases(rank), count)

        self._requests.ask = ask
        return iter(self._inner)

    def _evaluate(self) -> Iterator[Any]:
        """All of the stream once, whole shards for each worker; nothing counts as trained."""
        world, cursor = self._engine.world, self._engine.state.cursor
        leases: list[Lease] = [(shard, 0) for shard in range(world.rank, self._loader.dataset.shards(), world.size)]
        reader = ShardReader(self._loader.dataset, self._loader.collate_fn)
        request = Request(1, cursor.seed, cursor.epoch, leases, max(1, self._tuned // world.size))
        while (reading := reader[request]).count:
            yield reading.data


def _with_requests(loader: DataLoader[Any], requests: _Requests) -> DataLoader[Any]:
    """A shard is read from its beginning to its end, so one process at most reads ahead."""
    more: dict[str, Any] = {}
    if loader.num_workers > 0:
        more = {"prefetch_factor": loader.prefetch_factor, "persistent_workers": True}
        more["multiprocessing_context"] = loader.multiprocessing_context
    return DataLoader(
        ShardReader(loader.dataset, loader.collate_fn),
        sampler=requests,
        batch_size=None,
        num_workers=min(1, loader.num_workers),
        collate_fn=_as_it_is,
        pin_memory=loader.pin_memory,
        timeout=loader.timeout,
        worker_init_fn=loader.worker_init_fn,
        generator=torch.Generator(),  # so that making an iterator does not draw from the script's random numbers
        **more,
    )


def _as_it_is(reading: Reading) -> Reading:
    return reading
