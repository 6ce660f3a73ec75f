"""The numbers that say whether informers and controllers keep up, collected when Prometheus asks and not before."""

from collections.abc import Iterable, Sequence
from typing import Any

from prometheus_client import Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from .controller import Controller
from .informer import Informer


class RuntimeCollector:
    """Register with a prometheus_client registry."""

    def __init__(self, informers: Sequence[Informer[Any]], controllers: Sequence[Controller]) -> None:
        self._informers, self._controllers = informers, controllers

    def collect(self) -> Iterable[Metric]:
        yield from self._caches()
        yield from self._queues()

    def _caches(self) -> Iterable[Metric]:
        for name, help_, read in (
            ("edl_cache_objects", "Objects in the cache", len),
            ("edl_cache_age_seconds", "Time since the server last said anything", lambda one: one.age),
            ("edl_cache_synced", "1 once the cache was complete", lambda one: float(one.synced)),
        ):
            yield self._gauge(name, help_, "resource", [(_name(one), read(one)) for one in self._informers])
        for field, help_ in (
            ("lists", "Lists of everything"),
            ("watches", "Watches begun"),
            ("events", "Events received"),
            ("malformed", "Objects that could not be read"),
        ):
            family = CounterMetricFamily(f"edl_cache_{field}", help_, labels=["resource"])
            for one in self._informers:
                family.add_metric([_name(one)], getattr(one, field))
            yield family
        errors = CounterMetricFamily(
            "edl_handler_errors", "Changes that a handler failed on", labels=["resource", "handler"]
        )
        for one in self._informers:
            for handler in one.handlers:
                errors.add_metric([_name(one), handler.name], handler.errors)
        yield errors

    def _queues(self) -> Iterable[Metric]:
        for name, help_, read in (
            ("edl_queue_depth", "Keys that wait for a worker", len),
            ("edl_queue_delayed", "Keys that wait for their time", lambda queue: queue.delayed),
            ("edl_queue_working", "Keys being reconciled", lambda queue: queue.working),
        ):
            yield self._gauge(name, help_, "controller", [(one.name, read(one.queue)) for one in self._controllers])
        outcomes = CounterMetricFamily("edl_reconciles", "Reconciles by outcome", labels=["controller", "outcome"])
        for one in self._controllers:
            for outcome, count in one.outcomes.items():
                outcomes.add_metric([one.name, outcome], count)
        yield outcomes
        for field, help_ in (("waits", "Time a key waited for a worker"), ("durations", "Time a reconcile took")):
            name = "edl_queue_seconds" if field == "waits" else "edl_reconcile_seconds"
            family = HistogramMetricFamily(name, help_, labels=["controller"])
            for one in self._controllers:
                _add_histogram(family, one.name, getattr(one, field))
            yield family

    @staticmethod
    def _gauge(name: str, help_: str, label: str, values: Iterable[tuple[str, float]]) -> Metric:
        family = GaugeMetricFamily(name, help_, labels=[label])
        for who, value in values:
            family.add_metric([who], value)
        return family


def _add_histogram(family: HistogramMetricFamily, who: str, histogram: Histogram) -> None:
    samples = next(iter(histogram.collect())).samples
    buckets = [(sample.labels["le"], sample.value) for sample in samples if sample.name.endswith("_bucket")]
    total = next(sample.value for sample in samples if sample.name.endswith("_sum"))
    family.add_metric([who], buckets, total)


def _name(informer: Informer[Any]) -> str:
    """As kubectl tells kinds of one name apart."""
    resource = informer.resource
    return f"{resource.plural}.{resource.group}" if "." in resource.group else resource.plural
