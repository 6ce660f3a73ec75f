"""Growing, jittered delays, so that a thousand clients of a failing server do not come back at the same moment."""

import random


class Backoff:
    """Each delay is drawn from the upper half of base, 2 x base, 4 x base... up to cap; `reset` after a success."""

    def __init__(self, *, base: float, cap: float, rng: random.Random | None = None) -> None:
        self._base, self._cap = base, cap
        self._rng = rng or random.Random()
        self.failures = 0

    def next(self) -> float:
        limit = min(self._cap, self._base * 2.0 ** min(self.failures, 60))
        self.failures += 1
        return self._rng.uniform(limit / 2, limit)

    def reset(self) -> None:
        self.failures = 0
