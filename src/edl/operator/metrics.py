"""What there is to know about jobs and cycles, for Prometheus. Gauges are read from the caches when asked for."""

from collections import Counter
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Gauge, Histogram
from prometheus_client import Counter as PromCounter
from prometheus_client.core import GaugeMetricFamily, Metric

from edl.operator.book import Entry, JobBook
from edl.operator.job_service import Progress
from edl.operator.kinds import JobKey
from edl.operator.scheduling import Cycle
from edl.operator.waiting import waited

OF_A_JOB = ["kind", "namespace", "name"]
STALE = 120.0  # a report older than this says nothing about now
WAITS = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600)
Reports = Callable[[JobKey], tuple[Progress, float] | None]
"""The last that a job said of its training, and how many seconds ago."""

_JOB_GAUGES = (
    ("edl_job_size", "Pods of the leading role that run"),
    ("edl_job_target", "Pods of the leading role granted"),
    ("edl_job_wait_seconds", "How long the job waits for its minimum"),
    ("edl_job_goodput", "Samples per second that count, as the job says"),
    ("edl_job_done_ratio", "Share of its present pass that is done, as the job says"),
    ("edl_job_rescale_pause_seconds", "How long its last change of size stopped the training, as the job says"),
)


def nothing(key: JobKey) -> None:
    return None


class JobCollector:
    """Register with a prometheus_client registry. `clock` tells how long jobs have waited."""

    def __init__(self, book: JobBook, clock: Callable[[], float], reports: Reports = nothing) -> None:
        self._book, self._clock, self._reports = book, clock, reports

    def collect(self) -> Iterable[Metric]:
        phases: Counter[tuple[str, str, str]] = Counter()
        gauges = {name: GaugeMetricFamily(name, words, labels=OF_A_JOB) for name, words in _JOB_GAUGES}
        for entry in self._book.entries():
            metadata, status = entry.raw.metadata, entry.status
            phases[entry.kind.tag, metadata.namespace, status.phase.lower() or "refused"] += 1
            if not status.finished:
                who = [entry.kind.tag, metadata.namespace, metadata.name]
                for name, value in self._numbers(entry):
                    gauges[name].add_metric(who, value)
        jobs = GaugeMetricFamily("edl_jobs", "Jobs by phase", labels=["kind", "namespace", "phase"])
        for where, count in sorted(phases.items()):
            jobs.add_metric(where, count)
        yield from (jobs, *gauges.values())

    def _numbers(self, entry: Entry) -> Iterable[tuple[str, float]]:
        scale = entry.kind.scale_of(entry.status)
        target = _target(entry)
        yield "edl_job_size", scale.current if scale is not None else 0
        yield "edl_job_target", target
        if not target:
            yield "edl_job_wait_seconds", waited(entry, self._clock())
        report = self._reports(entry.key)
        if report is None or report[1] > STALE:
            return
        progress = report[0]
        if progress.throughput is not None:
            yield "edl_job_goodput", progress.throughput
        if progress.done is not None and progress.total:
            yield "edl_job_done_ratio", progress.done / progress.total
        if progress.pause is not None:
            yield "edl_job_rescale_pause_seconds", progress.pause


class CycleMetrics:
    """Of the operator that leads: the others plan nothing."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram("edl_cycle_seconds", "Time of a scheduling cycle", registry=registry)
        self._scales = PromCounter(
            "edl_scale_events", "Changes of a job's target", ["namespace", "direction"], registry=registry
        )
        self._waits = Histogram(
            "edl_job_waited_seconds",
            "How long jobs had waited when they were admitted",
            buckets=WAITS,
            registry=registry,
        )
        self._capacity = Gauge(
            "edl_cluster_capacity", "Of usable nodes: cores, bytes, devices", ["resource"], registry=registry
        )
        self._used = Gauge("edl_cluster_planned", "What the last plan uses of it", ["resource"], registry=registry)

    def planned(self, cycle: Cycle) -> None:
        self._seconds.observe(cycle.seconds)
        for decision in cycle.changed:
            direction = "up" if decision.target > decision.current else "down"
            self._scales.labels(decision.namespace, direction).inc()
        for seconds in cycle.waited:
            self._waits.observe(seconds)
        for gauge, amounts in (
            (self._capacity, cycle.plan.cluster.capacity),
            (self._used, cycle.plan.cluster.used_after),
        ):
            for resource, amount in amounts.items():
                gauge.labels(resource).set(amount / 1000 if resource == "cpu" else amount)


def _target(entry: Entry) -> int:
    scale = entry.kind.scale_of(entry.status)
    return (scale.target if scale is not None else None) or 0
