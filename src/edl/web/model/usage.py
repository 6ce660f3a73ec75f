"""What pods hold on which node and of which job, kept up as pods change: a change costs that pod alone.

By requests, as the scheduler counts. Pure: it is told of changes.
"""

import msgspec

from edl.api.kubernetes.core import Node, Pod
from edl.api.labels import LABEL_JOB, LABEL_KIND, LABEL_UID
from edl.kube.cache.objects import Key
from edl.scheduler.placement.resources import CPU, GPU_NAMES, MEMORY, amounts, pod_requests
from edl.web.model.rows import job_key
from edl.web.types import Amounts

NOTHING: Amounts = (0.0, 0.0, 0.0)


class Held(msgspec.Struct, frozen=True, gc=False):
    """One pod's part. `job` is empty for a pod that is not ours."""

    node: str
    job: str
    amounts: Amounts


class Usage:
    def __init__(self) -> None:
        self._pods: dict[Key, Held] = {}
        self.by_node: dict[str, dict[bool, Amounts]] = {}
        """Node to what pods of jobs (True) and others (False) hold of it."""
        self.by_job: dict[str, Amounts] = {}
        self.pods_on: dict[str, int] = {}

    def set(self, key: Key, pod: Pod | None) -> None:
        """The pod as it is now; None: it is gone."""
        held = held_by(pod) if pod is not None else None
        known = self._pods.get(key)
        if held == known:
            return
        if known is not None:
            self._count(known, -1)
            del self._pods[key]
        if held is not None:
            self._count(held, 1)
            self._pods[key] = held

    def on(self, node: str, *, ours: bool) -> Amounts:
        return self.by_node.get(node, {}).get(ours, NOTHING)

    def _count(self, held: Held, sign: int) -> None:
        more = tuple(sign * value for value in held.amounts)
        here = self.by_node.setdefault(held.node, {})
        here[bool(held.job)] = plus(here.get(bool(held.job), NOTHING), more)  # type: ignore[arg-type] # three again
        self.pods_on[held.node] = self.pods_on.get(held.node, 0) + sign
        if not self.pods_on[held.node]:
            del self.pods_on[held.node], self.by_node[held.node]
        if held.job:
            total = plus(self.by_job.get(held.job, NOTHING), more)  # type: ignore[arg-type] # three again
            if any(total):
                self.by_job[held.job] = total
            else:
                self.by_job.pop(held.job, None)


def held_by(pod: Pod) -> Held | None:
    """None: it holds nothing, since it has ended or is on no node."""
    if pod.finished or not pod.spec.node_name:
        return None
    return Held(pod.spec.node_name, job_of(pod), _three(pod_requests(pod.spec, pod.status.container_statuses)))


def job_of(pod: Pod) -> str:
    """The key of the job whose labels it bears, empty if none."""
    labels = pod.metadata.labels
    if LABEL_UID not in labels or LABEL_JOB not in labels or LABEL_KIND not in labels:
        return ""
    return job_key(labels[LABEL_KIND], pod.metadata.namespace, labels[LABEL_JOB])


def capacity_of(node: Node) -> Amounts:
    return _three(amounts(node.status.allocatable or node.status.capacity))


def _three(found: dict[str, int]) -> Amounts:
    gpus = sum(found.get(name, 0) for name in GPU_NAMES)
    return found.get(CPU, 0) / 1000, float(found.get(MEMORY, 0)), float(gpus)


def plus(one: Amounts, other: Amounts) -> Amounts:
    return round(one[0] + other[0], 3), one[1] + other[1], one[2] + other[2]
