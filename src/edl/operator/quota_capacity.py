"""The capacity that a job of a namespace can ever get: the cluster's, or less if a ResourceQuota allows less.

A plan beyond it would wait for ever. Quotas with scopes are left out: whether they count a pod depends on the pod, and
the scheduler asks that.
"""

from collections.abc import Iterable

from edl.api.kubernetes import quantity
from edl.api.kubernetes.core import ResourceQuota
from edl.protocol.plans import ClusterCapacity

MIB = 2**20


def within_quotas(capacity: ClusterCapacity, quotas: Iterable[ResourceQuota], gpu: str) -> ClusterCapacity:
    """`quotas` are those of the job's namespace, `gpu` the name of the devices that are counted."""
    hard: dict[str, float] = {}
    for quota in quotas:
        if quota.spec.scopes or quota.spec.scope_selector is not None:
            continue
        for name, value in (quota.spec.hard or quota.status.hard).items():
            base = name.removeprefix("requests.").removeprefix("limits.")
            hard[base] = min(quantity.nano(value) / 1e9, hard.get(base, float("inf")))
    return ClusterCapacity(
        cpu=min(capacity.cpu, hard.get("cpu", capacity.cpu)),
        memory=min(capacity.memory, int(hard.get("memory", capacity.memory * MIB) / MIB)),
        gpu=min(capacity.gpu, int(hard.get(gpu, capacity.gpu))),
    )
