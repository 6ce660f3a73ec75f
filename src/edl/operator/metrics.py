"""What there is to know about jobs and cycles, for Prometheus. Gauges are read from the caches when asked for."""

from collections import Counter
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client import Counter as PromCounter
from prometheus_client.core import GaugeMetricFamily, Metric

from edl.api import timestamp
from edl.operator.book import JobBook
from edl.operator.scheduling import Cycle

OF_A_JOB = ["kind", "namespace", "name"]


class JobCollector:
    """Register with a prometheus_client registry. `clock` tells how long jobs have waited."""

    def __init__(self, book: JobBook, clock: Callable[[], float]) -> None:
        self._book, self._clock = book, clock

    def collect(self) -> Iterable[Metric]:
        phases: Counter[tuple[str, str, str]] = Counter()
        sizes = GaugeMetricFamily("edl_job_size", "Pods of the leading role that run", labels=OF_A_JOB)
        targets = GaugeMetricFamily("edl_job_target", "Pods of the leading role granted", labels=OF_A_JOB)
        waits = GaugeMetricFamily("edl_job_wait_seconds", "How long the job waits", labels=OF_A_JOB)
        now = self._clock()
        for entry in self._book.entries():
            metadata, status = entry.raw.metadata, entry.status
            who = [entry.kind.tag, metadata.namespace, metadata.name]
            phases[entry.kind.tag, metadata.namespace, status.phase.lower() or "refused"] += 1
            if status.finished:
                continue
            scale = entry.kind.scale_of(status)
            target = (scale.target if scale is not None else None) or 0
            sizes.add_metric(who, scale.current if scale is not None else 0)
            targets.add_metric(who, target)
            if not target and metadata.creation_timestamp:
                waits.add_metric(who, max(0.0, now - timestamp.seconds(metadata.creation_timestamp)))
        jobs = GaugeMetricFamily("edl_jobs", "Jobs by phase", labels=["kind", "namespace", "phase"])
        for where, count in sorted(phases.items()):
            jobs.add_metric(where, count)
        yield from (jobs, sizes, targets, waits)


class CycleMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram("edl_cycle_seconds", "Time of a scheduling cycle", registry=registry)
        self._scales = PromCounter(
            "edl_scale_events", "Changes of a job's target", ["namespace", "direction"], registry=registry
        )

    def planned(self, cycle: Cycle) -> None:
        self._seconds.observe(cycle.seconds)
        for decision in cycle.changed:
            direction = "up" if decision.target > decision.current else "down"
            self._scales.labels(decision.namespace, direction).inc()
