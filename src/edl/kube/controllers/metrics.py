"""Prometheus metrics of informers and controllers: whether they keep up. Read only when Prometheus asks.

METRICS is the whole list: adding a metric is adding a row.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from edl.kube.cache.informer import Informer
from edl.kube.controllers.controller import Controller

_INSTRUMENTS = {"gauge": Gauge, "counter": Counter, "histogram": Histogram}
_FAMILIES = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily, "histogram": HistogramMetricFamily}
Type = Literal["gauge", "counter", "histogram"]
Caches = Sequence[Informer[Any]]
Controllers = Sequence[Controller]
Rows = Iterable[tuple[Sequence[str], float | Histogram]]
"""Values of the labels, and the value."""


class MetricSpec(NamedTuple):
    """A metric as it is declared. Counters are exposed with `_total` behind their name."""

    type: Type
    name: str
    help: str
    labels: Sequence[str] = ()

    @property
    def exposed_name(self) -> str:
        return f"{self.name}_total" if self.type == "counter" else self.name

    def instrument(self, registry: CollectorRegistry | None, **options: Any) -> Any:
        """A metric of prometheus_client that keeps its own values."""
        return _INSTRUMENTS[self.type](self.name, self.help, self.labels, registry=registry, **options)

    def family(self, rows: Rows = ()) -> Metric:
        """The metric with the values that were read for it now."""
        family: Any = _FAMILIES[self.type](self.name, self.help, labels=self.labels)
        for labels, value in rows:
            if isinstance(value, Histogram):
                family.add_metric(labels, *_distribution(value))
            else:
                family.add_metric(labels, value)
        metric: Metric = family
        return metric


class _RuntimeMetric(NamedTuple):
    spec: MetricSpec
    read: Callable[[Caches, Controllers], Rows]


def _per_cache(kind: Type, name: str, text: str, read: Callable[[Informer[Any]], float]) -> _RuntimeMetric:
    spec = MetricSpec(kind, name, text, ["resource"])
    return _RuntimeMetric(spec, lambda caches, _: [([_name(one)], read(one)) for one in caches])


def _per_queue(kind: Type, name: str, text: str, read: Callable[[Controller], float | Histogram]) -> _RuntimeMetric:
    spec = MetricSpec(kind, name, text, ["controller"])
    return _RuntimeMetric(spec, lambda _, controllers: [([one.name], read(one)) for one in controllers])


def _handler_errors(caches: Caches, controllers: Controllers) -> Rows:
    return [([_name(one), handler.name], handler.errors) for one in caches for handler in one.handlers]


def _outcomes(caches: Caches, controllers: Controllers) -> Rows:
    return [([one.name, outcome], count) for one in controllers for outcome, count in one.outcomes.items()]


METRICS = (
    _per_cache("gauge", "edl_cache_objects", "Objects in the cache", len),
    _per_cache("gauge", "edl_cache_age_seconds", "Time since the server last said anything", lambda one: one.age),
    _per_cache("gauge", "edl_cache_synced", "1 once the cache was complete", lambda one: float(one.synced)),
    _per_cache("counter", "edl_cache_lists", "Lists of everything", lambda one: one.lists),
    _per_cache("counter", "edl_cache_watches", "Watches begun", lambda one: one.watches),
    _per_cache("counter", "edl_cache_events", "Events received", lambda one: one.events),
    _per_cache("counter", "edl_cache_malformed", "Objects that could not be read", lambda one: one.malformed),
    _per_queue("gauge", "edl_queue_depth", "Keys that wait for a worker", lambda one: len(one.queue)),
    _per_queue("gauge", "edl_queue_delayed", "Keys that wait for their time", lambda one: one.queue.delayed),
    _per_queue("gauge", "edl_queue_working", "Keys being reconciled", lambda one: one.queue.working),
    _RuntimeMetric(
        MetricSpec("counter", "edl_handler_errors", "Changes that a handler failed on", ["resource", "handler"]),
        _handler_errors,
    ),
    _RuntimeMetric(
        MetricSpec("counter", "edl_reconciles", "Reconciles by outcome", ["controller", "outcome"]), _outcomes
    ),
    _per_queue("histogram", "edl_queue_seconds", "Time a key waited for a worker", lambda one: one.waits),
    _per_queue("histogram", "edl_reconcile_seconds", "Time a reconcile took", lambda one: one.durations),
)


class RuntimeCollector:
    """Register with a prometheus_client registry."""

    def __init__(self, informers: Caches, controllers: Controllers) -> None:
        self._informers, self._controllers = informers, controllers

    def collect(self) -> Iterable[Metric]:
        for metric in METRICS:
            yield metric.spec.family(metric.read(self._informers, self._controllers))


def _distribution(histogram: Histogram) -> tuple[list[tuple[str, float]], float]:
    """Its buckets and its sum, as HistogramMetricFamily wants them."""
    samples = next(iter(histogram.collect())).samples
    buckets = [(sample.labels["le"], sample.value) for sample in samples if sample.name.endswith("_bucket")]
    return buckets, next(sample.value for sample in samples if sample.name.endswith("_sum"))


def _name(informer: Informer[Any]) -> str:
    """As kubectl tells kinds of one name apart."""
    resource = informer.resource
    return f"{resource.plural}.{resource.group}" if "." in resource.group else resource.plural
