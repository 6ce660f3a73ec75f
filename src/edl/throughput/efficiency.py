"""Statistical efficiency: what the samples of a larger batch are worth, from the noise of the gradient.

The noise scale is the batch at which noise and gradient weigh the same: variance over squared norm, in samples. A batch
B is worth (scale + B0) / (scale + B) of as many samples in batches of B0, the batch that the job was tuned for.
"""

import math


def noise_scale(squared: float, variance: float, batch: float) -> float:
    """From the squared norm and the variance of gradients of so many samples. Infinite where only noise is left."""
    if not (math.isfinite(squared) and math.isfinite(variance) and batch > 0) or variance < 0:
        return math.inf
    return variance / squared * batch if squared > 0 else math.inf


def efficiency(scale: float, batch: float, tuned: float) -> float:
    """Between 0 and 1 for batches not below the tuned one."""
    if math.isnan(scale) or scale < 0:
        scale = math.inf
    return 1.0 if math.isinf(scale) else (scale + tuned) / (scale + batch)
