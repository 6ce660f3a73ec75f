"""One shard of a model in memory: values, optimiser state and the table of applied pushes, which change together.

Not thread-safe: the server holds a lock around every method. Nothing here is durable; a checkpoint is `contents()`
written elsewhere, and `restore_shard` builds a shard from the files of however many shards wrote it.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from edl.runtime.parameters.applied_pushes import AppliedPushes
from edl.runtime.parameters.dense import DensePart
from edl.runtime.parameters.model import Model
from edl.runtime.parameters.rows import RowTable
from edl.runtime.sharding import shards_of_rows

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]
Gradients = tuple[dict[str, Floats], list[tuple[str, Ids, Floats]]]


class ShardContents(msgspec.Struct):
    """Describes the arrays of a checkpoint file."""

    model: Model
    counts: dict[str, int]
    passes: list[int]


class Shard:
    def __init__(self, model: Model, shard: int, shards: int) -> None:
        self.model, self.shard, self.shards = model, shard, shards
        self.dense = {tensor.name: DensePart.empty(model, tensor, shard, shards) for tensor in model.dense}
        self.tables = {table.name: RowTable(model, table) for table in model.rows}
        self.applied = AppliedPushes()

    def apply(self, grads: Gradients, rate: float | None) -> None:
        """Applies one step; overwrites the arrays of `grads`."""
        dense, rows = grads
        rate = self.model.optimizer.learning_rate if rate is None else rate
        for name, grad in dense.items():
            self.dense[name].apply(self.model, rate, grad)
        for name, ids, grad in rows:
            self.tables[name].apply(rate, ids, grad)

    def read(self, payload: memoryview, dense: Iterable[str], rows: Iterable[tuple[str, int]] = ()) -> Gradients:
        """The arrays of a message as views of its payload. ValueError: the payload does not fit the model."""
        at, grads = 0, {}
        for name in dense:
            size = 4 * len(self._part(name).values)
            grads[name] = np.frombuffer(payload[at : at + size], np.float32)
            at += size
        tables = []
        for name, count in rows:
            width, middle = self.model.width(name), at + 8 * count
            end = middle + 4 * count * width
            ids = np.frombuffer(payload[at:middle], np.int64)
            tables.append((name, ids, np.frombuffer(payload[middle:end], np.float32).reshape(count, width)))
            at = end
        if at != len(payload):
            raise ValueError(f"the message announces {at} bytes and has {len(payload)}")
        return grads, tables

    def contents(self) -> tuple[ShardContents, dict[str, NDArray[Any]]]:
        """Copies of all arrays, by the names of the checkpoint format."""
        arrays: dict[str, NDArray[Any]] = {}
        for name, part in self.dense.items():
            arrays.update({f"dense/{name}/{i}": array.copy() for i, array in enumerate(part.arrays())})
        for name, table in self.tables.items():
            ids, counts, values = table.contents()
            arrays.update({f"rows/{name}/ids": ids, f"rows/{name}/counts": counts})
            arrays.update({f"rows/{name}/{i}": array for i, array in enumerate(values)})
        steps = self.applied.arrays()
        arrays.update({f"applied/{index}": counts for index, counts in steps.items()})
        about = ShardContents(self.model, {name: part.count for name, part in self.dense.items()}, list(steps))
        return about, arrays

    def copy_from(self, about: ShardContents, arrays: Mapping[str, NDArray[Any]], shard: int, shards: int) -> None:
        """Copies this shard's part of what was shard `shard` of `shards`."""
        slots = range(1 + self.model.optimizer.slots)
        for tensor in self.model.dense:
            values, *rest = [arrays[f"dense/{tensor.name}/{i}"] for i in slots]
            source = DensePart(values, rest, about.counts[tensor.name])
            self.dense[tensor.name].fill(tensor, (self.shard, self.shards), (shard, shards), source)
        for name, table in self.tables.items():
            ids = arrays[f"rows/{name}/ids"]
            mine = shards_of_rows(ids, self.shards) == self.shard
            table.add(ids[mine], arrays[f"rows/{name}/counts"][mine], [arrays[f"rows/{name}/{i}"][mine] for i in slots])

    def _part(self, name: str) -> DensePart:
        if name not in self.dense:
            raise ValueError(f"the model has no dense tensor {name!r}")
        return self.dense[name]


def restore_shard(
    files: Mapping[int, tuple[bytes, Mapping[str, NDArray[Any]]]], wrote: int, shard: int, shards: int
) -> Shard:
    """Shard `shard` of `shards` from the files of those of the `wrote` shards that hold a part of it."""
    result: Shard | None = None
    applied: AppliedPushes | None = None
    for index, (description, arrays) in files.items():
        about = msgspec.msgpack.decode(description, type=ShardContents)
        result = result or Shard(about.model, shard, shards)
        result.copy_from(about, arrays, index, wrote)
        steps = AppliedPushes({number: arrays[f"applied/{number}"].copy() for number in about.passes})
        applied = steps if applied is None else applied.merged(steps)
    assert result is not None
    assert applied is not None
    result.applied = applied
    return result
