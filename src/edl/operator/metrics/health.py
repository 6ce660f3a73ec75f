"""Prometheus metrics of an operator's own health: whether it leads, pods reach it, and until when it is trusted.

Alerts are built on them (`edl.install.monitoring.alerts`). They are read when Prometheus asks.
"""

from collections.abc import Callable, Iterable

from prometheus_client.core import Metric

from edl.kube.controllers.metrics import MetricSpec
from edl.operator.credentials.identity import Identity

LEADER = MetricSpec("gauge", "edl_leader", "1 on the operator that leads, else 0")
SERVED = MetricSpec("gauge", "edl_job_service_published", "1 if pods are led to this operator's job service, else 0")
ENDS = MetricSpec("gauge", "edl_certificate_ends_seconds", "When a certificate ends, in Unix time", ["certificate"])
METRICS = (LEADER, SERVED, ENDS)


class HealthCollector:
    """Register with a prometheus_client registry. `identity` returns None where there are no certificates."""

    def __init__(
        self, *, leads: Callable[[], bool], served: Callable[[], bool], identity: Callable[[], Identity | None]
    ) -> None:
        self._leads, self._served, self._identity = leads, served, identity

    def collect(self) -> Iterable[Metric]:
        yield LEADER.family([((), float(self._leads()))])
        yield SERVED.family([((), float(self._served()))])
        yield ENDS.family(self._ends())

    def _ends(self) -> list[tuple[list[str], float]]:
        identity = self._identity()
        if identity is None:
            return []
        return [
            (["server"], identity.pair.ends.timestamp()),
            (["authority"], identity.authority.ends.timestamp()),
        ]
