"""The position of the training in its data, and who takes which part of a global batch. Pure, needs no torch.

The order of an epoch depends on seed and epoch alone, a batch is the next so many samples of it, and each rank takes a
contiguous share: whatever the number of workers, the model sees the same batches.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass
class Cursor:
    """What is committed: `step` optimizer steps in all, `batch` global batches and `sample` samples of `epoch`.

    `base`: workers that the batch was tuned for, where it grows with them (0: it does not). `scale`: how many times the
    tuned batch the learning rate is for."""

    seed: int = 0
    epoch: int = 0
    batch: int = 0
    step: int = 0
    sample: int = 0
    base: int = 0
    scale: float = 1.0

    def state(self) -> dict[str, Any]:
        return asdict(self)

    def load(self, state: dict[str, Any]) -> None:
        """Of an earlier version, which counted batches alone, too; `sample` is then -1 until the batch is known."""
        given = {"sample": -1 if state["batch"] else 0, "base": 0, "scale": 1.0, **state}
        for field in fields(self):
            kind = float if field.name == "scale" else int
            setattr(self, field.name, kind(given[field.name]))

    def advance(self, part: "Part | None") -> None:
        """A step happened, and this part was its last."""
        self.step += 1
        if part is None:
            return
        self.batch, self.sample = part.batch + 1, part.start + part.whole
        if part.ends:
            self.next_epoch()

    def next_epoch(self) -> None:
        self.epoch, self.batch, self.sample = self.epoch + 1, 0, 0


def share(length: int, rank: int, size: int) -> range:
    """The part of a batch of this length that a rank takes; shares differ by one sample at most."""
    return range(length * rank // size, length * (rank + 1) // size)


def batches(samples: int, batch: int, *, drop_last: bool) -> int:
    """How many global batches so many samples are; the last one may be short."""
    return samples // batch if drop_last else -(-samples // batch)


@dataclass(frozen=True)
class Part:
    """What one rank takes from the loader at once: `count` samples of a global batch of `whole`.

    `indices` has one sample even if `count` is 0: a model cannot compute on nothing, and its result has no weight.
    `batch` is the number of the global batch in its epoch, `start` how many samples come before it; `last`: no other
    part of it follows for this rank; `ends`: it is the last of its epoch."""

    batch: int
    indices: Sequence[int]
    count: int
    whole: int
    last: bool = True
    start: int = 0
    ends: bool = False


def parts(
    order: Sequence[int],
    number: int,
    batch: int,
    rank: int,
    size: int,
    micro: int = 0,
    *,
    start: int | None = None,
    ends: bool = False,
) -> list[Part]:
    """The rank's share of a global batch, in parts of at most `micro` samples."""
    begin = number * batch if start is None else start
    whole = order[begin : begin + batch]
    own = share(len(whole), rank, size)
    if not own:
        return [Part(number, [whole[0]], 0, len(whole), start=begin, ends=ends)]
    step = micro or len(own)
    cuts = [own[at : at + step] for at in range(0, len(own), step)]
    return [
        Part(number, [whole[at] for at in cut], len(cut), len(whole), last=cut is cuts[-1], start=begin, ends=ends)
        for cut in cuts
    ]
