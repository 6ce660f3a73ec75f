"""The gradient noise scale, from how much smaller the gradient of all workers is than that of each. Pure.

The squared norm of a gradient of b samples is expected to be |G|^2 + variance / b: two sizes of batch, the share of one
worker and the whole, tell both. Their ratio is the batch at which noise and gradient weigh the same.
"""

import math

DECAY = 0.95
EVERY = 10
"""Steps between measurements: they cost two looks at all gradients."""


class NoiseScale:
    def __init__(self) -> None:
        self._squared = self._variance = self._weight = 0.0

    def add(self, *, of_share: float, of_batch: float, share: float, batch: float) -> None:
        """Squared norms of the mean gradient of one share (the mean over workers) and of the whole batch."""
        if not (0 < share < batch and math.isfinite(of_share) and math.isfinite(of_batch)):
            return
        squared = (batch * of_batch - share * of_share) / (batch - share)
        variance = (of_share - of_batch) / (1 / share - 1 / batch)
        self._squared = DECAY * self._squared + (1 - DECAY) * squared
        self._variance = DECAY * self._variance + (1 - DECAY) * variance
        self._weight = DECAY * self._weight + (1 - DECAY)

    @property
    def scale(self) -> float | None:
        """In samples; None while nothing sensible is known. Both parts are noisy: only their means are divided."""
        if self._weight < 1 - DECAY**3 or self._squared <= 0 or self._variance <= 0:
            return None
        return self._variance / self._squared
