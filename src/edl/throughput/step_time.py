"""Fits the seconds of a training step as a function of workers, nodes and batch.

A step computes and then synchronises. Computing is linear in the samples of a worker, once per pass of accumulation;
synchronising has a constant part and one that grows with the workers beyond two, each apart for workers on one node
and on several. So the time is linear in six unknowns, none of them negative; they are those of least relative error.

A weak prior decides what the measurements leave open: half of a pass does not depend on the batch, and synchronising
costs nothing on one node until it was seen, over several nodes a quarter of a pass, and no less than on one. That is
hopeful, so that sizes are tried, but not so much that every job leaves its node to learn what that costs.
"""

import math
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
PRIOR = 0.02  # weight of the prior against one measurement
UNSEEN_NODES = 0.25  # of a pass that synchronising over nodes is taken to cost until it was seen
NODES_COST = 1.1  # synchronising over nodes costs at least so many times that within one
UNKNOWNS = 6


class MeasuredStep(msgspec.Struct, frozen=True):
    """A step of so many seconds. `batch`: samples of one worker and one pass; `accumulation`: further passes."""

    workers: int
    nodes: int
    batch: int
    seconds: float
    accumulation: int = 0


class StepTime(msgspec.Struct, frozen=True):
    """Seconds: a pass and a sample of it; synchronising on one node and over several, and per worker beyond two."""

    per_pass: float
    per_sample: float
    on_node: float
    on_node_worker: float
    over_nodes: float
    over_nodes_worker: float

    def seconds(self, workers: int, nodes: int, batch: float, accumulation: int = 0) -> float:
        return (accumulation + 1) * (self.per_pass + self.per_sample * batch) + self.synchronising(workers, nodes)

    def synchronising(self, workers: int, nodes: int) -> float:
        if workers <= 1:
            return 0.0
        if nodes <= 1:
            return self.on_node + self.on_node_worker * (workers - 2)
        return self.over_nodes + self.over_nodes_worker * (workers - 2)


def fit_step_time(measured: Iterable[MeasuredStep]) -> StepTime | None:
    """None without a measurement that makes sense."""
    steps = [step for step in measured if _sensible(step)]
    if not steps:
        return None
    rows = np.array([[term / step.seconds for term in _terms(step)] for step in steps])
    gram, target = rows.T @ rows, rows.sum(axis=0)
    _add_prior(gram, target, steps)
    unit = np.sqrt(gram.diagonal())  # positive by the prior; terms of very different size are solved for as equals
    found = [float(value) for value in non_negative(gram / np.outer(unit, unit), target / unit) / unit]
    if not any(step.nodes > 1 for step in steps):
        found[4], found[5] = max(found[4], found[2] * NODES_COST), max(found[5], found[3] * NODES_COST)
    return StepTime(*found)


def _sensible(step: MeasuredStep) -> bool:
    whole = step.workers >= 1 and 1 <= step.nodes <= step.workers and step.batch >= 1 and step.accumulation >= 0
    return whole and math.isfinite(step.seconds) and 1e-9 < step.seconds < 1e9 and step.batch < 1e12


def _terms(step: MeasuredStep) -> tuple[float, ...]:
    passes = step.accumulation + 1
    alone, several = step.workers > 1 and step.nodes <= 1, step.workers > 1 and step.nodes > 1
    more = step.workers - 2
    return passes, passes * step.batch, alone, alone * more, several, several * more


def _add_prior(gram: Array, target: Array, steps: Sequence[MeasuredStep]) -> None:
    """As if it had been measured, in units of the mean pass: a pass is half constant, and the rest little."""
    seconds = sum(step.seconds / (step.accumulation + 1) for step in steps) / len(steps)
    batch = sum(step.batch for step in steps) / len(steps)
    workers = max(2.0, sum(step.workers for step in steps) / len(steps))
    scale = np.array([1 / seconds, batch / seconds, 1 / seconds, workers / seconds, 1 / seconds, workers / seconds])
    weight = PRIOR * np.array([1.0, 1.0, 0.1, 10.0, 0.1, 10.0])
    wanted = np.array([0.5, 0.5, 0.0, 0.0, UNSEEN_NODES, 0.0])
    gram[np.diag_indices(UNKNOWNS)] += weight * scale**2
    target += weight * scale * wanted


def non_negative(gram: Array, target: Array) -> Array:
    """Least squares with no unknown below zero, by an active set: the unknowns that are free grow one at a time."""
    found = np.zeros(len(target))
    free: list[int] = []
    for _ in range(4 * len(target)):
        slope = target - gram @ found
        slope[free] = -np.inf
        best = int(np.argmax(slope))
        if slope[best] <= 1e-9 * abs(target[best]):
            break
        free.append(best)
        found = _step_back(gram, target, found, free)
    return found


def _step_back(gram: Array, target: Array, found: Array, free: list[int]) -> Array:
    """Solves for the free unknowns; those that turn negative on the way there are bound to zero again, one by one."""
    while free:
        # Measurements that differ by many orders leave nothing of the prior: what they cannot tell apart, they share.
        solved = np.linalg.lstsq(gram[np.ix_(free, free)], target[free], rcond=None)[0]
        before = found[free]
        falls = [
            (float(had / (had - gets)) if had > 0 else 0.0, index)
            for index, had, gets in zip(free, before, solved, strict=True)
            if gets <= 0
        ]
        found = np.zeros(len(target))
        if not falls:
            found[free] = solved
            return found
        reach, first = min(falls)
        found[free] = np.maximum(0.0, before + reach * (solved - before))
        found[first] = 0.0
        free.remove(first)
    return found
