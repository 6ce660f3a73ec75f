"""Samples whose random numbers depend on seed, epoch and index alone, whichever worker and process makes them.

So an augmentation that draws from torch, Python or NumPy does the same to a sample whatever the number of workers, and
whether or not its step had to be made again. Data sets that draw nothing pay next to nothing.
"""

from collections.abc import Sequence
from typing import Any

from torch.utils.data import Dataset

from edl.torch.data.random_numbers import RandomState, own_random_numbers, seed_of

Drawn = tuple[int, int, int]
"""Seed, epoch and index of a sample."""


class SeededSamples(Dataset):  # type: ignore[type-arg,misc,unused-ignore]  # torch may not be installed where types are checked
    """What is not defined here is the script's data set's."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self._draws = False

    def __getattr__(self, name: str) -> Any:
        if name in ("dataset", "_draws") or name.startswith("__"):  # asked before a process has unpickled it
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitems__(self, drawn: Sequence[Drawn]) -> list[Any]:
        """The first batch that turns out to draw anything is made again; one that draws nothing needs no seeds."""
        if not self._draws:
            before = RandomState()
            samples = self._together([index for _, _, index in drawn])
            if before.holds:
                return samples
            self._draws = True
            before.restore()
        with own_random_numbers() as set_seed:
            if hasattr(self.dataset, "__getitems__"):
                set_seed(seed_of(*drawn[0]))  # made together: the seed is that of the first
                return self._together([index for _, _, index in drawn])
            samples = []
            for one in drawn:
                set_seed(seed_of(*one))
                samples.append(self.dataset[one[2]])
            return samples

    def _together(self, indices: list[int]) -> list[Any]:
        many = getattr(self.dataset, "__getitems__", None)
        return list(many(indices)) if many else [self.dataset[index] for index in indices]
