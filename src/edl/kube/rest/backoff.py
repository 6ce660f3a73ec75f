"""Growing, jittered delays, so that a thousand clients of a failing server do not come back at the same moment."""

import random


def jittered(failures: int, base: float, cap: float, rng: random.Random) -> float:
    """Drawn from the upper half of base, 2 x base, 4 x base... up to cap."""
    limit = min(cap, base * 2.0 ** min(failures, 60))
    return rng.uniform(limit / 2, limit)


class Backoff:
    """`next` is the delay before another attempt; `reset` after a success."""

    def __init__(self, *, base: float, cap: float, rng: random.Random | None = None) -> None:
        self._base, self._cap = base, cap
        self._rng = rng or random.Random()
        self.failures = 0

    def next(self) -> float:
        self.failures += 1
        return jittered(self.failures - 1, self._base, self._cap, self._rng)

    def reset(self) -> None:
        self.failures = 0
