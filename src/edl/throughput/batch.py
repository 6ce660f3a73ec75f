"""The batches that a job may use, and the best of them for a size: the most goodput by step time and efficiency."""

import msgspec
import numpy as np
from numpy.typing import NDArray

from edl.throughput.step_time import StepTime

Array = NDArray[np.float64]
CHOICES = 50  # batches that are tried for a size, evenly by ratio
ROUNDING = 1e-8


class BatchRange(msgspec.Struct, frozen=True):
    """`tuned`: the batch that the job was written for; others are at least that. Bounds of one worker and pass beside
    it.
    """

    tuned: int
    most: int
    least_of_worker: int
    most_of_worker: int


class BestBatch(msgspec.Struct, frozen=True):
    """By size: goodput in samples of the tuned batch per second, batch of a worker and pass, further passes."""

    rates: Array
    batches: NDArray[np.int64]
    accumulations: NDArray[np.int64]


def best_batches(
    step: StepTime, scale: float, allowed: BatchRange, sizes: NDArray[np.int64], nodes: NDArray[np.int64]
) -> BestBatch:
    """For every size on so many nodes. A size that even the largest batch is too small for has the rate 0."""
    least = np.maximum(allowed.tuned, allowed.least_of_worker * sizes)
    total = np.geomspace(least, np.maximum(allowed.most, least), CHOICES)
    share = total / sizes
    accumulations = np.ceil(share / allowed.most_of_worker - ROUNDING) - 1
    # a single worker needs two passes to know the noise of a batch beyond the tuned one
    beyond = (sizes == 1) & (share > allowed.tuned + ROUNDING)
    accumulations = np.where(beyond, np.maximum(accumulations, 1), accumulations)
    batches = np.ceil(share / (accumulations + 1) - ROUNDING)
    real = sizes * batches * (accumulations + 1)
    seconds = (accumulations + 1) * (step.per_pass + step.per_sample * batches) + _synchronising(step, sizes, nodes)
    worth = 1.0 if np.isinf(scale) else (scale + allowed.tuned) / (scale + real)
    valid = (batches >= allowed.least_of_worker) & (batches <= allowed.most_of_worker) & (least <= allowed.most)
    rates = np.where(valid, real * worth / seconds, 0.0)
    best = np.argmax(rates, axis=0), np.arange(len(sizes))
    return BestBatch(rates[best], batches[best].astype(np.int64), accumulations[best].astype(np.int64))


def _synchronising(step: StepTime, sizes: NDArray[np.int64], nodes: NDArray[np.int64]) -> Array:
    more = sizes - 2
    several = step.over_nodes + step.over_nodes_worker * more
    found: Array = np.where(nodes > 1, several, step.on_node + step.on_node_worker * more)
    return np.where(sizes > 1, found, 0.0)
