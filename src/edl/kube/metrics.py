"""The numbers that say whether informers and controllers keep up, collected when Prometheus asks and not before."""

from collections.abc import Iterable, Sequence
from typing import Any

from prometheus_client import Histogram
from prometheus_client.core import CounterMetricFamily as Counter
from prometheus_client.core import GaugeMetricFamily as Gauge
from prometheus_client.core import HistogramMetricFamily, Metric

from .controller import Controller
from .informer import Informer

_CACHES: list[tuple[Any, str, str, Any]] = [
    (Gauge, "edl_cache_objects", "Objects in the cache", len),
    (Gauge, "edl_cache_age_seconds", "Time since the server last said anything", lambda one: one.age),
    (Gauge, "edl_cache_synced", "1 once the cache was complete", lambda one: float(one.synced)),
    (Counter, "edl_cache_lists", "Lists of everything", lambda one: one.lists),
    (Counter, "edl_cache_watches", "Watches begun", lambda one: one.watches),
    (Counter, "edl_cache_events", "Events received", lambda one: one.events),
    (Counter, "edl_cache_malformed", "Objects that could not be read", lambda one: one.malformed),
]
_QUEUES: list[tuple[Any, str, str, Any]] = [
    (Gauge, "edl_queue_depth", "Keys that wait for a worker", lambda one: len(one.queue)),
    (Gauge, "edl_queue_delayed", "Keys that wait for their time", lambda one: one.queue.delayed),
    (Gauge, "edl_queue_working", "Keys being reconciled", lambda one: one.queue.working),
]


class RuntimeCollector:
    """Register with a prometheus_client registry."""

    def __init__(self, informers: Sequence[Informer[Any]], controllers: Sequence[Controller]) -> None:
        self._informers, self._controllers = informers, controllers

    def collect(self) -> Iterable[Metric]:
        caches, controllers = [(_name(one), one) for one in self._informers], self._controllers
        for kind, name, help_, read in _CACHES:
            yield _filled(kind(name, help_, labels=["resource"]), [((who,), read(one)) for who, one in caches])
        for kind, name, help_, read in _QUEUES:
            yield _filled(kind(name, help_, labels=["controller"]), [((one.name,), read(one)) for one in controllers])
        errors = Counter("edl_handler_errors", "Changes that a handler failed on", labels=["resource", "handler"])
        yield _filled(errors, [((who, each.name), each.errors) for who, one in caches for each in one.handlers])
        outcomes = Counter("edl_reconciles", "Reconciles by outcome", labels=["controller", "outcome"])
        yield _filled(
            outcomes, [((one.name, how), count) for one in controllers for how, count in one.outcomes.items()]
        )
        waits = HistogramMetricFamily("edl_queue_seconds", "Time a key waited for a worker", labels=["controller"])
        durations = HistogramMetricFamily("edl_reconcile_seconds", "Time a reconcile took", labels=["controller"])
        for one in controllers:
            _add_histogram(waits, one.name, one.waits)
            _add_histogram(durations, one.name, one.durations)
        yield from (waits, durations)


def _filled(family: Any, rows: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
    for labels, value in rows:
        family.add_metric(labels, value)
    filled: Metric = family
    return filled


def _add_histogram(family: HistogramMetricFamily, who: str, histogram: Histogram) -> None:
    samples = next(iter(histogram.collect())).samples
    buckets = [(sample.labels["le"], sample.value) for sample in samples if sample.name.endswith("_bucket")]
    total = next(sample.value for sample in samples if sample.name.endswith("_sum"))
    family.add_metric([who], buckets, total)


def _name(informer: Informer[Any]) -> str:
    """As kubectl tells kinds of one name apart."""
    resource = informer.resource
    return f"{resource.plural}.{resource.group}" if "." in resource.group else resource.plural
