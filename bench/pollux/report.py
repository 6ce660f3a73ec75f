"""The figures of one run, as JSON and as a table."""

from collections.abc import Iterable, Sequence
from typing import Any

from bench.pollux.simulator import Simulator

HOUR = 3600


def figures(load: str, workload: int, policy: str, simulator: Simulator) -> dict[str, Any]:
    """The keys are the contract of `-o json`; times in seconds unless the key says otherwise."""
    times = completion_times(simulator)
    order = sorted(times.values())
    seconds = simulator.decision_seconds
    return {
        "load": float(load),
        "workload": workload,
        "policy": policy,
        "jobs": len(order),
        "avg_jct": sum(order) / len(order),
        "p50": percentile(order, 50),
        "p90": percentile(order, 90),
        "p99": percentile(order, 99),
        "makespan": max(job.completion_time or 0 for job in simulator.jobs),
        "restarts": sum(job.restarts or 0 for job in simulator.jobs),
        "gpu_hours": sum(job.gpu_seconds for job in simulator.jobs) / HOUR,
        "decision_ms_mean": 1e3 * sum(seconds) / len(seconds),
        "decision_ms_max": 1e3 * max(seconds),
    }


def completion_times(simulator: Simulator) -> dict[str, int]:
    """Job: seconds from its submission to its end."""
    return {job.name: (job.completion_time or 0) - job.submission.time for job in simulator.jobs}


def percentile(ordered: Sequence[float], percent: float) -> float:
    """With linear interpolation between the two nearest."""
    at = (len(ordered) - 1) * percent / 100
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


HEAD = (
    f"{'load':>5} {'workload':>8}  {'policy':20} {'jobs':>4} {'avg s':>8} {'p50':>7} {'p90':>7} {'p99':>7} "
    f"{'makespan':>8} {'restarts':>8} {'GPU-h':>6} {'ms mean':>8} {'ms max':>8}"
)


def line(one: dict[str, Any]) -> str:
    return (
        f"{one['load']:5.1f} {one['workload']:8}  {one['policy']:20} {one['jobs']:4} {one['avg_jct']:8.1f} "
        f"{one['p50']:7.0f} {one['p90']:7.0f} {one['p99']:7.0f} {one['makespan']:8} {one['restarts']:8} "
        f"{one['gpu_hours']:6.0f} {one['decision_ms_mean']:8.2f} {one['decision_ms_max']:8.1f}"
    )


def means(runs: Sequence[dict[str, Any]]) -> Iterable[str]:
    """Per policy over its workloads, where there are several."""
    policies = list(dict.fromkeys(one["policy"] for one in runs))
    for policy in policies:
        own = [one for one in runs if one["policy"] == policy]
        if len(own) > 1:
            mean = {key: sum(one[key] for one in own) / len(own) for key, value in own[0].items() if key != "policy"}
            yield (
                f"{'':5} {'mean':>8}  {policy:20} {'':4} {mean['avg_jct']:8.1f} {mean['p50']:7.0f} {mean['p90']:7.0f} "
                f"{mean['p99']:7.0f} {mean['makespan']:8.0f} {mean['restarts']:8.0f} {mean['gpu_hours']:6.0f} "
                f"{mean['decision_ms_mean']:8.2f} {mean['decision_ms_max']:8.1f}"
            )


def against_published(times: dict[str, int], published: dict[str, float] | None) -> str:
    """How the completion times compare with the published ones of the same policy, job by job."""
    if published is None:
        return "nothing is published of it"
    if set(times) != set(published):
        return "the published jobs are others"
    same = sum(times[name] == published[name] for name in times)
    if same == len(times):
        return f"all {same} jobs as published"
    worst = max(times, key=lambda name: abs(times[name] - published[name]))
    differs = f"{worst} differs most: {times[worst]} s, published {published[worst]:g} s"
    return f"{same} of {len(times)} jobs as published; {differs}"
