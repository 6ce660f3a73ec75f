"""Figures of a run: completion times, waiting, use, fairness, changes, and what decisions cost."""

from collections.abc import Sequence

import msgspec

from edl.scheduler.simulation.engine import Run
from edl.scheduler.simulation.foretold import ForecastError, forecast_error


class Figures(msgspec.Struct, frozen=True):
    """Seconds, unless the name says otherwise. `fairness_jain`: 1 is equal; `fairness_worst`: the largest ratio."""

    policy: str
    jobs: int
    avg_jct: float
    p50: float
    p90: float
    p99: float
    makespan: float
    avg_wait: float
    utilisation: float
    fairness_jain: float
    fairness_worst: float
    changes: int
    gpu_hours: float
    gpu_hours_lost: float
    decisions: int
    decision_ms_mean: float
    decision_ms_max: float
    foretold: ForecastError | None = None
    """How well starts were foretold, if they were."""


def figures(run: Run) -> Figures:
    jobs = run.jobs
    times = sorted((job.ended or 0.0) - job.trace.submit for job in jobs)
    first = min(job.trace.submit for job in jobs)
    end = max(job.ended or 0.0 for job in jobs)
    ratios = _finish_time_ratios(run)
    seconds = run.decision_seconds or [0.0]
    return Figures(
        policy=run.settings.policy,
        jobs=len(jobs),
        avg_jct=sum(times) / len(times),
        p50=percentile(times, 50),
        p90=percentile(times, 90),
        p99=percentile(times, 99),
        makespan=end - first,
        avg_wait=sum((job.started or 0.0) - job.trace.submit for job in jobs) / len(jobs),
        utilisation=_utilisation(run, end),
        fairness_jain=_jain(ratios),
        fairness_worst=max(ratios),
        changes=sum(job.changes for job in jobs),
        gpu_hours=sum(job.served for job in jobs) / 3600,
        gpu_hours_lost=sum(job.lost for job in jobs) / 3600,
        decisions=len(run.decision_seconds),
        decision_ms_mean=1e3 * sum(seconds) / len(seconds),
        decision_ms_max=1e3 * max(seconds),
        foretold=_foretold(run),
    )


def _foretold(run: Run) -> ForecastError | None:
    by_uid = {job.uid: job for job in run.jobs}
    pairs = ((said, by_uid[uid].started) for uid, said in run.foretold.items())
    known = [(said, started) for said, started in pairs if started is not None]
    return forecast_error(known) if known else None


def percentile(ordered: Sequence[float], percent: float) -> float:
    """With linear interpolation between the two nearest."""
    at = (len(ordered) - 1) * percent / 100
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def _finish_time_ratios(run: Run) -> list[float]:
    """Of each job: its completion time over that on an equal part of the cluster, by the jobs present on average."""
    jobs = run.jobs
    spans = sum((job.ended or 0.0) - job.trace.submit for job in jobs)
    length = max(job.ended or 0.0 for job in jobs) - min(job.trace.submit for job in jobs)
    gpus = max((there for _, _, there in run.used), default=1)
    share = max(1.0, gpus * length / max(spans, 1e-9))
    found = []
    for job in jobs:
        alone = job.trace.work / job.trace.speed(max(1, min(int(share), job.trace.max)))
        found.append(((job.ended or 0.0) - job.trace.submit) / max(alone + job.trace.pause, 1e-9))
    return found


def _jain(values: Sequence[float]) -> float:
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def _utilisation(run: Run, end: float) -> float:
    """GPU-seconds that jobs held, of those that were there from the first event to the last end."""
    held = there = 0.0
    for (time, used, gpus), (following, _, _) in zip(run.used, [*run.used[1:], (end, 0, 0)], strict=True):
        held += used * max(0.0, following - time)
        there += gpus * max(0.0, following - time)
    return held / there if there else 0.0
