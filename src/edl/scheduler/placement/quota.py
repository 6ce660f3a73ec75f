"""ResourceQuotas as a ledger: what every pod is charged on every line of the quotas in whose scope it is.

In use is the larger of what the quota's status says and what the pods of the snapshot sum to (decision 25): either
may lag.
"""

from collections.abc import Iterator, Mapping, Sequence

from edl.api.kubernetes.core import PodSpec, ResourceQuota
from edl.scheduler.placement.namespace_limits import counted_names, in_scope, quota_amount, taken
from edl.scheduler.snapshot.pod_facts import PodFacts
from edl.scheduler.snapshot.types import Charges, QuotaLine

Quotas = Mapping[str, Sequence[ResourceQuota]]
"""By namespace."""


class QuotaLedger:
    """`token`: the same object as long as the specs of the quotas are the same."""

    def __init__(self, quotas: Quotas, token: object) -> None:
        self._token = token
        self.names = _names(quotas)
        self._numbers = {name: number for number, name in enumerate(self.names)}
        self._quotas = quotas
        self._sums = [0] * len(self.names)

    def holds_for(self, quotas: Quotas, token: object) -> bool:
        """Whether the lines are the same, whatever is in use."""
        return token is self._token and _names(quotas) == self.names

    def count(self, pod: PodFacts, pods: int = 1) -> None:
        """Counts a pod as in use, or no longer (-1)."""
        if self._sums and not pod.finished:
            for quota_line, amount in self.of_pod(pod):
                self._sums[quota_line] += amount * pods

    def quota_lines(self, quotas: Quotas) -> tuple[QuotaLine, ...]:
        """With what is in use now."""
        return tuple(
            _quota_line(namespace, quota, name, in_pods)
            for (namespace, quota, name), in_pods in zip(_listed(quotas), self._sums, strict=True)
        )

    def of_pod(self, pod: PodFacts) -> Charges:
        """The charges of a pod that exists."""
        if pod.charged_by is not self:
            pod.charges = self.charges(pod.pod.spec, pod.pod.metadata.namespace, pod.requests, pod.limits)
            pod.charged_by = self
        return pod.charges

    def charges(self, spec: PodSpec, namespace: str, requests: Mapping[str, int], limits: Mapping[str, int]) -> Charges:
        quotas = self._quotas.get(namespace)
        if not quotas:
            return ()
        found = []
        for quota in quotas:
            if in_scope(spec, quota):
                for name in sorted(counted_names(quota)):
                    number = self._numbers[namespace, quota.metadata.name, name]
                    found.append((number, taken(requests, limits, name)))
        return tuple((quota_line, amount) for quota_line, amount in found if amount)


def _listed(quotas: Quotas) -> Iterator[tuple[str, ResourceQuota, str]]:
    for namespace in sorted(quotas):
        for quota in quotas[namespace]:
            for name in sorted(counted_names(quota)):
                yield namespace, quota, name


def _names(quotas: Quotas) -> tuple[tuple[str, str, str], ...]:
    return tuple((namespace, quota.metadata.name, name) for namespace, quota, name in _listed(quotas))


def _quota_line(namespace: str, quota: ResourceQuota, name: str, in_pods: int) -> QuotaLine:
    hard = quota.spec.hard or quota.status.hard
    used = quota.status.used.get(name)
    return QuotaLine(
        namespace=namespace,
        quota=quota.metadata.name,
        resource=name,
        hard=quota_amount(name, hard[name]),
        used=max(quota_amount(name, used) if used is not None else 0, in_pods),
    )
