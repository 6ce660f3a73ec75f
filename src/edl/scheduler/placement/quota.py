"""ResourceQuotas as a ledger: what every pod is charged on every line of the quotas in whose scope it is.

In use is the larger of what the quota's status says and what the pods of the snapshot sum to (decision 25): either
may lag.
"""

from collections.abc import Iterable, Mapping, Sequence

from edl.api.kubernetes.core import PodSpec, ResourceQuota
from edl.scheduler.placement.namespace_limits import counted_names, in_scope, quota_amount, taken
from edl.scheduler.snapshot.pod_facts import PodFacts
from edl.scheduler.snapshot.types import Charges, QuotaLine

_Line = tuple[int, str]


class QuotaLedger:
    def __init__(self, quotas: Mapping[str, Sequence[ResourceQuota]], pods: Iterable[PodFacts], token: object) -> None:
        """`token`: the same object as long as the specs of the quotas are the same."""
        self._token = token
        self._lines: dict[str, list[tuple[ResourceQuota, list[_Line]]]] = {}
        listed: list[tuple[str, ResourceQuota, str]] = []
        for namespace in sorted(quotas):
            for quota in quotas[namespace]:
                lines = []
                for name in sorted(counted_names(quota)):
                    lines.append((len(listed), name))
                    listed.append((namespace, quota, name))
                self._lines.setdefault(namespace, []).append((quota, lines))
        sums = self._sums(pods, len(listed)) if listed else []
        self.quota_lines = tuple(
            _quota_line(namespace, quota, name, sums[index]) for index, (namespace, quota, name) in enumerate(listed)
        )

    def _sums(self, pods: Iterable[PodFacts], size: int) -> list[int]:
        sums = [0] * size
        for pod in pods:
            if not pod.finished:
                for quota_line, amount in self.of_pod(pod):
                    sums[quota_line] += amount
        return sums

    def of_pod(self, pod: PodFacts) -> Charges:
        """The charges of a pod that exists."""
        if pod.charged_by is not self._token or self._token is None:
            pod.charges = self.charges(pod.pod.spec, pod.pod.metadata.namespace, pod.requests, pod.limits)
            pod.charged_by = self._token
        return pod.charges

    def charges(self, spec: PodSpec, namespace: str, requests: Mapping[str, int], limits: Mapping[str, int]) -> Charges:
        found = []
        for quota, lines in self._lines.get(namespace, ()):
            if in_scope(spec, quota):
                found += [(quota_line, taken(requests, limits, name)) for quota_line, name in lines]
        return tuple((quota_line, amount) for quota_line, amount in found if amount)


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
