"""The global batch for a number of workers: constant, or in proportion to them. Pure, needs no torch.

The batch that the script asks for is the one that it was tuned for. Where the batch may grow, it is that of the
smallest size of the job, and `scale` of the present one is how many times it is: what the learning rate follows.
"""

from dataclasses import dataclass

RAMP = 0.1  # of the way to a larger scale that the learning rate goes with each step


@dataclass(frozen=True)
class BatchRule:
    """`base`: workers for which the batch was tuned; 0: it is constant. `most`: the largest batch; 0: none is."""

    base: int = 0
    most: int = 0

    def batch(self, tuned: int, workers: int) -> int:
        if not self.base:
            return tuned
        grown = max(tuned, tuned * workers // self.base)
        return min(grown, max(self.most, tuned)) if self.most else grown


def ramped(scale: float, target: float) -> float:
    """The scale of the next step: larger ones are approached, smaller ones taken at once, for they are safe."""
    if target <= scale:
        return target
    near = scale + RAMP * (target - scale)
    return target if target - near < 0.01 * target else near
