"""Prometheus metrics of jobs and scheduling cycles, and the catalogue of all that an operator exposes.

Gauges of jobs are read from the caches when Prometheus asks. A new metric is a row of JOB_METRICS, or a constant beside
the class that observes it; `catalogue` lists them all for the documentation.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from edl.jobs.core.stall import STALLED
from edl.jobs.registry import JOB_KIND_BY_CRD
from edl.kube.controllers import metrics as runtime_metrics
from edl.kube.controllers.metrics import MetricSpec
from edl.operator.accounting.accounting import Accounting
from edl.operator.metrics import health, requests
from edl.operator.queue_wait import waited
from edl.operator.reconcile.job_cache import Entry, JobCache
from edl.operator.reconcile.job_key import JobKey
from edl.operator.scheduling_loop import CycleResult
from edl.protocol.progress import Progress
from edl.protocol.rounds import RoundChange

STALE = 120.0  # a report older than this says nothing about now
REFUSED = "Refused"  # the condition of a job whose pods the API server does not take
PAUSES = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 15, 60, 300)
WAITS = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600)
Reports = Callable[[JobKey], tuple[Progress, float] | None]
"""A job's last report of its progress, and how many seconds ago it came."""

JOBS = MetricSpec("gauge", "edl_jobs", "Jobs by phase", ["kind", "namespace", "phase"])
CYCLE_SECONDS = MetricSpec("histogram", "edl_cycle_seconds", "Time of a scheduling cycle")
CYCLE_ERRORS = MetricSpec("counter", "edl_cycle_errors", "Scheduling cycles that failed: sizes stayed as they were")
SCALE_EVENTS = MetricSpec("counter", "edl_scale_events", "Changes of a job's target", ["namespace", "direction"])
JOB_WAITED = MetricSpec("histogram", "edl_job_waited_seconds", "How long jobs had waited when they were admitted")
CAPACITY = MetricSpec("gauge", "edl_cluster_capacity", "Of usable nodes: cores, bytes, devices", ["resource"])
PLANNED = MetricSpec("gauge", "edl_cluster_planned", "What the last plan uses of it", ["resource"])


BOOKED = MetricSpec(
    "counter",
    "edl_ledger_seconds",
    "What instances of jobs were used for: instance-, GPU-, core- and GiB-seconds, under this leader",
    ["namespace", "resource", "use"],
)
CLUSTER_BOOKED = MetricSpec(
    "counter",
    "edl_cluster_seconds",
    "What capacity of usable nodes was used for: GPU-, core- and GiB-seconds",
    ["resource", "use"],
)
HISTORY_PENDING = MetricSpec("gauge", "edl_history_pending_jobs", "Jobs with news that the Brain was not told yet")
HISTORY_DROPPED = MetricSpec("counter", "edl_history_dropped", "News for the Brain that were given up")
ACCOUNT_METRICS = (BOOKED, CLUSTER_BOOKED, HISTORY_PENDING, HISTORY_DROPPED)

STATUS_HELD = MetricSpec(
    "counter",
    "edl_status_writes_held",
    "Status writes put off because a job's status changed again and again with nothing else changing",
    ["kind", "namespace"],
)


class JobMetric(NamedTuple):
    """A gauge with a value for each unfinished job, or none if `read` returns None.

    `read` gets the job, the job's recent report of its progress if there is one, and the time.
    """

    name: str
    help: str
    read: Callable[[Entry, Progress, float], float | None]

    @property
    def spec(self) -> MetricSpec:
        return MetricSpec("gauge", self.name, self.help, ["kind", "namespace", "name"])


def _size(entry: Entry, report: Progress, now: float) -> float:
    scale = entry.kind.scale_of(entry.status)
    return scale.current if scale is not None else 0


def _target(entry: Entry, report: Progress, now: float) -> float:
    scale = entry.kind.scale_of(entry.status)
    return (scale.target if scale is not None else None) or 0


def _wait(entry: Entry, report: Progress, now: float) -> float | None:
    return None if _target(entry, report, now) else waited(entry, now)


def _condition(kind: str) -> Callable[[Entry, Progress, float], float]:
    def is_true(entry: Entry, report: Progress, now: float) -> float:
        return float(any(one.type == kind and one.status == "True" for one in entry.status.conditions))

    return is_true


def _done_ratio(entry: Entry, report: Progress, now: float) -> float | None:
    return report.done / report.total if report.done is not None and report.total else None


JOB_METRICS = (
    JobMetric("edl_job_size", "Pods of the leading role that run", _size),
    JobMetric("edl_job_target", "Pods of the leading role granted", _target),
    JobMetric("edl_job_wait_seconds", "How long the job waits for its minimum", _wait),
    JobMetric("edl_job_stalled", "1 if the job runs and has made no progress for a while, else 0", _condition(STALLED)),
    JobMetric("edl_job_refused", "1 if the API server refuses what the job needs, else 0", _condition(REFUSED)),
    JobMetric(
        "edl_job_goodput",
        "Samples per second that count, as the job says",
        lambda entry, report, now: report.throughput,
    ),
    JobMetric("edl_job_done_ratio", "Share of its present pass that is done, as the job says", _done_ratio),
    JobMetric(
        "edl_job_rescale_pause_seconds",
        "How long its last change of size stopped the training, as the job says",
        lambda entry, report, now: report.pause,
    ),
)
CHANGE_SECONDS = MetricSpec(
    "histogram", "edl_member_change_seconds", "How long changes of members stopped the training of a job", ["way"]
)
CHANGE_BYTES = MetricSpec("counter", "edl_member_change_bytes", "State that newcomers received from others", ["way"])
CHANGE_STEPS = MetricSpec("counter", "edl_member_change_lost_steps", "Steps that had to be made again", ["way"])
CHANGE_METRICS = (CHANGE_SECONDS, CHANGE_BYTES, CHANGE_STEPS)
CYCLE_METRICS = (CYCLE_SECONDS, CYCLE_ERRORS, SCALE_EVENTS, JOB_WAITED, CAPACITY, PLANNED)


def catalogue() -> Sequence[MetricSpec]:
    """Every metric that an operator exposes: type, name, help and labels. Needs no operator."""
    jobs = [JOBS, *(metric.spec for metric in JOB_METRICS)]
    runtime = [metric.spec for metric in runtime_metrics.METRICS]
    own = [*health.METRICS, *ACCOUNT_METRICS]
    return [*jobs, *CYCLE_METRICS, *CHANGE_METRICS, STATUS_HELD, *own, *runtime, *requests.METRICS]


def no_reports(key: JobKey) -> None:
    return None


class JobCollector:
    """Register with a prometheus_client registry. `clock` is for how long jobs have waited."""

    def __init__(self, jobs: JobCache, clock: Callable[[], float], reports: Reports = no_reports) -> None:
        self._jobs, self._clock, self._reports = jobs, clock, reports

    def collect(self) -> Iterable[Metric]:
        entries, now = list(self._jobs.entries()), self._clock()
        phases = Counter(_phase(entry) for entry in entries)
        yield JOBS.family(sorted(phases.items()))
        unfinished = [(entry, self._report(entry)) for entry in entries if not entry.status.finished]
        for metric in JOB_METRICS:
            values = [(_labels(entry), metric.read(entry, report, now)) for entry, report in unfinished]
            yield metric.spec.family((labels, value) for labels, value in values if value is not None)

    def _report(self, entry: Entry) -> Progress:
        report = self._reports(entry.key)
        return Progress() if report is None or report[1] > STALE else report[0]


def _phase(entry: Entry) -> tuple[str, str, str]:
    return entry.kind.tag, entry.raw.metadata.namespace, entry.status.phase.lower() or "refused"


def _labels(entry: Entry) -> list[str]:
    return [entry.kind.tag, entry.raw.metadata.namespace, entry.raw.metadata.name]


class ChangeMetrics:
    """Changes of the members of PyTorch jobs, in place or by a restart, as their agents tell the leader."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = CHANGE_SECONDS.instrument(registry, buckets=PAUSES)
        self._bytes, self._steps = CHANGE_BYTES.instrument(registry), CHANGE_STEPS.instrument(registry)

    def made(self, changes: Iterable[RoundChange]) -> None:
        for change in changes:
            way = "in-place" if change.in_place else "restart"
            self._seconds.labels(way).observe(change.pause)
            self._bytes.labels(way).inc(change.sent)
            self._steps.labels(way).inc(max(0, change.lost))


class CycleMetrics:
    """Metrics of the operator that leads: the others plan nothing."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = CYCLE_SECONDS.instrument(registry)
        self._errors = CYCLE_ERRORS.instrument(registry)
        self._scales = SCALE_EVENTS.instrument(registry)
        self._waits = JOB_WAITED.instrument(registry, buckets=WAITS)
        self._capacity = CAPACITY.instrument(registry)
        self._planned = PLANNED.instrument(registry)

    def failed(self) -> None:
        self._errors.inc()

    def planned(self, cycle: CycleResult) -> None:
        self._seconds.observe(cycle.seconds)
        for decision in cycle.changed:
            direction = "up" if decision.target > decision.current else "down"
            self._scales.labels(decision.namespace, direction).inc()
        for seconds in cycle.waited:
            self._waits.observe(seconds)
        for gauge, amounts in (
            (self._capacity, cycle.plan.cluster.capacity),
            (self._planned, cycle.plan.cluster.used_after),
        ):
            for resource, amount in amounts.items():
                gauge.labels(resource).set(amount / 1000 if resource == "cpu" else amount)


class AccountCollector:
    """The totals of the ledger, and how the history comes along. Register with a prometheus_client registry."""

    def __init__(self, accounting: Accounting) -> None:
        self._accounting = accounting

    def collect(self) -> Iterable[Metric]:
        accounting = self._accounting
        yield BOOKED.family(sorted(accounting.totals.values.items()))
        uses = accounting.cluster.account.uses
        yield CLUSTER_BOOKED.family(
            ([resource, str(use)], getattr(amounts, resource))
            for use, amounts in sorted(uses.items())
            for resource in ("gpus", "cores", "gib")
        )
        yield HISTORY_PENDING.family([([], accounting.feed.pending)])
        yield HISTORY_DROPPED.family([([], accounting.feed.dropped)])


class SpinMetrics:
    """Counts jobs whose status is held back. Any is a fault of EDL's."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._held = STATUS_HELD.instrument(registry)

    def held(self, key: JobKey) -> None:
        self._held.labels(JOB_KIND_BY_CRD[key.kind].tag, key.namespace).inc()
