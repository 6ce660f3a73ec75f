"""One application as it was measured: step times by placement and local batch, gradient statistics by epoch.

Everything between measurements is linear interpolation, as in the published simulator: over the local batch where the
placement was measured, else over nodes, replicas and local batch together. The latter depends on how points are joined
to tetrahedra, so it takes Qhull, through scipy, as the published one does.
"""

import bisect
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

MOST_NODES = 16  # of the scalability table


class Measured(NamedTuple):
    """A measured step. `shape`: replicas by node, empty where only their numbers are known."""

    shape: tuple[int, ...]
    nodes: int
    replicas: int
    local_bsz: int
    step_time: float
    sync_time: float


class ValidationRow(NamedTuple):
    """What was measured after one epoch."""

    progress: float
    iteration: float
    grad_sqr: float
    grad_var: float


class Application:
    def __init__(
        self,
        name: str,
        placements: Sequence[Measured],
        scalability: Sequence[Measured],
        validation: dict[int, list[ValidationRow]],
        *,
        epochs: int,
        max_local_bsz: int | None,
    ) -> None:
        self.name = name
        self.epochs = epochs
        self.validation = validation
        self.batches = list(validation)
        self.init_batch_size, self.max_batch_size = self.batches[0], self.batches[-1]
        self.min_local_bsz = min(one.local_bsz for one in placements)
        self.max_local_bsz = max_local_bsz or max(one.local_bsz for one in placements)
        self._shapes: dict[tuple[int, ...], list[Measured]] = {}
        for one in placements:
            self._shapes.setdefault(one.shape, []).append(one)
        for rows in self._shapes.values():
            rows.sort(key=lambda one: one.local_bsz)
        self._points = [*_averaged(placements), *scalability]
        self._interpolator: Any = None
        self._steps: dict[tuple[tuple[int, ...], int], tuple[float, float]] = {}
        self._statistics: dict[tuple[int, int], tuple[float, float]] = {}
        self._progress = [
            0.0,
            *(min(rows[epoch].progress for rows in validation.values()) for epoch in range(epochs)),
        ]

    def progress(self, epoch: int) -> float:
        """Progress after so many epochs."""
        return self._progress[epoch]

    def step_time(self, placement: tuple[int, ...], local_bsz: int) -> tuple[float, float]:
        """Seconds of a step, and of those the seconds of synchronisation."""
        key = placement, local_bsz
        found = self._steps.get(key)
        if found is None:
            shape = min(placement[at:] + placement[:at] for at in range(len(placement)))
            rows = self._shapes.get(shape)
            found = self._along(rows, local_bsz) if rows is not None else self._between(shape, local_bsz)
            self._steps[key] = found
        return found

    def _along(self, rows: list[Measured], local_bsz: int) -> tuple[float, float]:
        sizes = [one.local_bsz for one in rows]
        if not sizes[0] <= local_bsz <= sizes[-1]:
            raise ValueError(f"{self.name}: a local batch of {local_bsz} was not measured ({sizes[0]} to {sizes[-1]})")
        at = min(max(bisect.bisect_left(sizes, local_bsz), 1), len(sizes) - 1)
        low, high = rows[at - 1], rows[at]
        across, along = high.local_bsz - low.local_bsz, local_bsz - low.local_bsz
        step = (high.step_time - low.step_time) / across * along + low.step_time
        sync = (high.sync_time - low.sync_time) / across * along + low.sync_time
        return step, sync

    def _between(self, shape: tuple[int, ...], local_bsz: int) -> tuple[float, float]:
        if self._interpolator is None:
            from scipy.interpolate import LinearNDInterpolator  # only here: nothing else of EDL needs scipy

            where = [[one.nodes, one.replicas, one.local_bsz] for one in self._points]
            what = [[one.step_time, one.sync_time] for one in self._points]
            self._interpolator = LinearNDInterpolator(where, what)
        step, sync = self._interpolator([min(len(shape), MOST_NODES), sum(shape), local_bsz])[0].tolist()
        if math.isnan(step + sync):
            raise ValueError(f"{self.name}: nothing was measured around placement {shape}, local batch {local_bsz}")
        return step, sync

    def gradient_statistics(self, batch_size: int, epoch: int) -> tuple[float, float]:
        """Squared norm and variance of the gradient during an epoch."""
        key = batch_size, epoch
        found = self._statistics.get(key)
        if found is None:
            low, high = self._around(batch_size)
            below, above = self.validation[low][epoch], self.validation[high][epoch]
            found = self._statistics[key] = (
                _mean(batch_size, low, high, below.grad_sqr, above.grad_sqr),
                _mean(batch_size, low, high, below.grad_var, above.grad_var),
            )
        return found

    def iterations(self, batch_size: int, epoch: int) -> float:
        """Steps after the end of an epoch."""
        low, high = self._around(batch_size)
        below, above = self.validation[low][epoch], self.validation[high][epoch]
        return _mean(batch_size, low, high, below.iteration, above.iteration)

    def _around(self, batch_size: int) -> tuple[int, int]:
        at = bisect.bisect_left(self.batches, batch_size)
        if at == len(self.batches) or batch_size < self.batches[0]:
            raise ValueError(f"{self.name}: a batch of {batch_size} is outside what was measured")
        return (batch_size if self.batches[at] == batch_size else self.batches[at - 1]), self.batches[at]


def _mean(at: int, low: int, high: int, below: float, above: float) -> float:
    if low == high:
        return below
    return ((at - low) * above + (high - at) * below) / (high - low)


def _averaged(placements: Sequence[Measured]) -> list[Measured]:
    """Over the placements of as many replicas on as many nodes, in their order."""
    groups: dict[tuple[int, int, int], list[Measured]] = {}
    for one in placements:
        groups.setdefault((one.nodes, one.replicas, one.local_bsz), []).append(one)
    return [
        Measured(
            (),
            *key,
            math.fsum(one.step_time for one in group) / len(group),
            math.fsum(one.sync_time for one in group) / len(group),
        )
        for key, group in sorted(groups.items())
    ]
