"""Random numbers that depend on what they are drawn for, and leave those of the script as if nothing had been."""

import hashlib
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch


def seed_of(*parts: int) -> int:
    """A seed of 63 bits that differs with every part."""
    text = ":".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> 1


class RandomState:
    """The state of the random numbers of torch, Python and, where the script has imported it, NumPy."""

    def __init__(self) -> None:
        self._numpy = getattr(sys.modules.get("numpy"), "random", None)
        self._python, self._torch = random.getstate(), torch.get_rng_state()
        self._drawn: Any = self._numpy.get_state() if self._numpy else None

    @property
    def holds(self) -> bool:
        """Whether nothing was drawn since."""
        if self._numpy:
            _, keys, place, *_ = self._numpy.get_state()
            if place != self._drawn[2] or (keys != self._drawn[1]).any():
                return False
        return random.getstate() == self._python and torch.equal(torch.get_rng_state(), self._torch)

    def restore(self) -> None:
        random.setstate(self._python)
        torch.set_rng_state(self._torch)
        if self._numpy:
            self._numpy.set_state(self._drawn)

    def set_seed(self, seed: int) -> None:
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        if self._numpy:
            self._numpy.seed(seed & 0xFFFFFFFF)


@contextmanager
def own_random_numbers() -> Iterator[Callable[[int], None]]:
    """Yields what sets the seed of numbers that are drawn within."""
    before = RandomState()
    try:
        yield before.set_seed
    finally:
        before.restore()
