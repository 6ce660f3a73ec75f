"""A loader that yields this worker's share of each global batch, from the committed position on.

It keeps what the script's DataLoader is (data set, collation, worker processes, pinned memory) and tells it which
samples to load. After a change of members, or a step that did not happen, it begins again at the cursor. Where no
gradients are computed (`torch.no_grad()`) it yields a whole epoch and nothing counts as seen.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader

from edl.torch import cursor as cursors
from edl.torch.cursor import Part
from edl.torch.data.order import order_of
from edl.torch.data.sample_seeds import Drawn, SeededSamples
from edl.torch.engine import Engine

log = logging.getLogger(__name__)


class _Indices:
    """The batch sampler of the inner loader: what it is to load, in order. It reads ahead; nothing depends on that."""

    def __init__(self) -> None:
        self.parts: Callable[[], Iterator[Part]] = lambda: iter(())
        self.drawn = 0, 0

    def __iter__(self) -> Iterator[list[Drawn]]:
        seed, epoch = self.drawn
        return ([(seed, epoch, index) for index in part.indices] for part in self.parts())


class ElasticLoader:
    """What is not defined here is the script's DataLoader's."""

    def __init__(self, loader: DataLoader[Any], engine: Engine, *, micro_batch: int = 0) -> None:
        self._loader, self._engine, self._micro = loader, engine, micro_batch
        self._tuned = int(loader.batch_size)
        self._indices = _Indices()
        self._inner = _with_indices(loader, self._indices)
        self._samples = len(loader.sampler)
        self._drawn: tuple[int, int] | None = None
        self._order: list[int] = []
        engine.fed = True
        engine.growth.batches = 0 if engine.state.cursor.base else len(self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def __len__(self) -> int:
        """Global batches of an epoch."""
        return cursors.batches(self._samples, self._tuned, drop_last=self._loader.drop_last)

    def __iter__(self) -> Iterator[Any]:
        self._engine.join()
        if not torch.is_grad_enabled():
            # Workers that share a model compute together: who has nothing computes what does not count.
            return (data for part, data in self._from(0, 0) if part.count or self._engine.siblings.size > 1)
        return self._train()

    def _train(self) -> Iterator[Any]:
        engine, cursor = self._engine, self._engine.state.cursor
        engine.settle()
        if cursor.sample < 0:
            cursor.sample = cursor.batch * self._tuned
        epoch = cursor.epoch
        while cursor.epoch == epoch:
            for part, data in self._from(cursor.batch, cursor.sample):
                engine.handed_out(part)
                began = engine.rewinds
                yield data
                engine.settle()
                if engine.rewinds != began or cursor.epoch != epoch:
                    break
            else:  # the script did not step after the last batch, and goes on to the next epoch
                if cursor.epoch == epoch:
                    cursor.next_epoch()

    def _from(self, number: int, start: int) -> Iterator[tuple[Part, Any]]:
        """All from this batch of the present epoch on."""
        cursor, world = self._engine.state.cursor, self._engine.world
        self._draw(cursor.seed, cursor.epoch)
        order, batch = self._order, self._batch(world.size)

        def parts() -> Iterator[Part]:
            at, begin = number, start
            while not self._is_over(begin, batch):
                after = min(begin + batch, self._samples)
                ends = self._is_over(after, batch)
                yield from cursors.parts(order, at, batch, world.rank, world.size, self._micro, start=begin, ends=ends)
                at, begin = at + 1, after

        self._indices.parts, self._indices.drawn = parts, (cursor.seed, cursor.epoch)
        return zip(parts(), self._inner, strict=False)

    def _is_over(self, start: int, batch: int) -> bool:
        left = self._samples - start
        return left <= 0 or (self._loader.drop_last and left < batch)

    def _batch(self, size: int) -> int:
        batch = self._engine.growth.batch_of(self._tuned, size)
        if batch < size:
            log.warning("the global batch is %d: %d of %d workers have nothing to do", batch, size - batch, size)
        return batch

    def _draw(self, seed: int, epoch: int) -> None:
        if self._drawn == (seed, epoch):
            return
        self._drawn, self._order = (seed, epoch), order_of(self._loader.sampler, self._samples, seed, epoch)
        if len(self._order) != self._samples:
            raise ValueError(
                f"the sampler says that it has {self._samples} samples and drew {len(self._order)}: "
                "have its __len__ say how many it draws in every epoch"
            )


def _with_indices(loader: DataLoader[Any], indices: _Indices) -> DataLoader[Any]:
    """The same loader, told what to load. Its processes stay from one change to the next."""
    more: dict[str, Any] = {}
    if loader.num_workers > 0:
        more = {"prefetch_factor": loader.prefetch_factor, "persistent_workers": True}
        more["multiprocessing_context"] = loader.multiprocessing_context
    return DataLoader(
        SeededSamples(loader.dataset),
        batch_sampler=indices,
        num_workers=loader.num_workers,
        collate_fn=loader.collate_fn,
        pin_memory=loader.pin_memory,
        timeout=loader.timeout,
        worker_init_fn=loader.worker_init_fn,
        generator=torch.Generator(),  # so that making an iterator does not draw from the script's random numbers
        **more,
    )
