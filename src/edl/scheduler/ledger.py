"""ResourceQuotas as accounts: every line of every quota is one, and a pod takes so much of each that is about it.

In use is the larger of what the quota's status says and what the pods of the snapshot sum to (decision 25): either
may lag.
"""

from collections.abc import Iterable, Mapping, Sequence

from edl.api.core import PodSpec, ResourceQuota
from edl.scheduler.bounds import counted_names, in_scope, quota_amount, taken
from edl.scheduler.facts import Account, Taxes
from edl.scheduler.podfacts import PodFacts

_Line = tuple[int, str]


class Ledger:
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
        self.accounts = tuple(
            _account(namespace, quota, name, sums[place]) for place, (namespace, quota, name) in enumerate(listed)
        )

    def _sums(self, pods: Iterable[PodFacts], size: int) -> list[int]:
        sums = [0] * size
        for pod in pods:
            if not pod.finished:
                for account, amount in self.of_pod(pod):
                    sums[account] += amount
        return sums

    def of_pod(self, pod: PodFacts) -> Taxes:
        """Of a pod that exists."""
        if pod.taxed_by is not self._token or self._token is None:
            pod.taxes = self.taxes(pod.pod.spec, pod.pod.metadata.namespace, pod.requests, pod.limits)
            pod.taxed_by = self._token
        return pod.taxes

    def taxes(self, spec: PodSpec, namespace: str, requests: Mapping[str, int], limits: Mapping[str, int]) -> Taxes:
        found = []
        for quota, lines in self._lines.get(namespace, ()):
            if in_scope(spec, quota):
                found += [(account, taken(requests, limits, name)) for account, name in lines]
        return tuple((account, amount) for account, amount in found if amount)


def _account(namespace: str, quota: ResourceQuota, name: str, in_pods: int) -> Account:
    hard = quota.spec.hard or quota.status.hard
    used = quota.status.used.get(name)
    return Account(
        namespace=namespace,
        quota=quota.metadata.name,
        resource=name,
        hard=quota_amount(name, hard[name]),
        used=max(quota_amount(name, used) if used is not None else 0, in_pods),
    )
