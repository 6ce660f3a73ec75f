"""StatefulSet: pods with an ordinal, a name and a host name of their own, started, updated and stopped in order.

There are no ControllerRevisions here: a pod that is made again while an update is under way is made from the new
template. Nor are there volumes to claim.
"""

import time
from collections.abc import Callable
from typing import Any

from edl.api.kubernetes.pod_network import Pod
from edl.embedded.controllers.caches import Caches
from edl.embedded.controllers.deployment import template_hash
from edl.embedded.controllers.pods import claim, create_pods, delete_pods, pod_from_template, ready_for, write_status
from edl.embedded.controllers.types import StatefulSet
from edl.embedded.resources import STATEFUL_SETS
from edl.kube.cache.objects import Key
from edl.kube.controllers.controller import Controller, Source, owner_key

REVISION_LABEL = "controller-revision-hash"
NAME_LABEL = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL = "apps.kubernetes.io/pod-index"


class StatefulSets:
    def __init__(self, caches: Caches, *, clock: Callable[[], float] = time.time) -> None:
        self._client = caches.client
        self._sets = caches.of(STATEFUL_SETS, StatefulSet)
        self._pods = caches.pods
        self._clock = clock

    def controller(self) -> Controller:
        sources: list[Source[Any]] = [Source(self._sets), Source(self._pods, owner_key("StatefulSet", "apps"))]
        return Controller("statefulset", sources, self.reconcile)

    async def reconcile(self, key: Key) -> float | None:
        wanted = self._sets.get(key)
        if wanted is None:
            return None
        pods = {
            ordinal: pod
            for pod in await claim(self._client, self._pods, STATEFUL_SETS, wanted, wanted.spec.selector)
            if (ordinal := ordinal_of(wanted, pod)) is not None
        }
        revision = f"{wanted.metadata.name}-{template_hash(wanted.spec.template)}"
        now = self._clock()
        if wanted.metadata.deletion_timestamp is None:
            create, delete = decide(wanted, pods, revision, now)
            await create_pods(self._client, self._pods, [_pod(wanted, ordinal, revision) for ordinal in create])
            await delete_pods(self._client, self._pods, [pods[ordinal] for ordinal in delete])
        mine = [pod for pod in self._pods.by("owner", wanted.metadata.uid) if not pod.terminating]
        await write_status(self._client, self._sets, wanted, _status(wanted, mine, revision, now))
        waits = [wanted.spec.min_ready_seconds - ready_for(pod, now) for pod in mine if pod.ready]
        return min((wait for wait in waits if wait > 0), default=None)


def ordinal_of(wanted: StatefulSet, pod: Pod) -> int | None:
    name, _, ordinal = pod.metadata.name.rpartition("-")
    return int(ordinal) if name == wanted.metadata.name and ordinal.isdigit() else None


def decide(wanted: StatefulSet, pods: dict[int, Pod], revision: str, now: float) -> tuple[list[int], list[int]]:
    """Which ordinals to create and which to delete now. In order, each step waits until the one before it is done."""
    desired = range(wanted.spec.replicas)
    ended = [ordinal for ordinal in desired if ordinal in pods and pods[ordinal].finished]
    if ended:  # an ordinal whose pod has ended is made anew, once the old one is gone
        return [], [ordinal for ordinal in ended if not pods[ordinal].terminating]
    missing = [ordinal for ordinal in desired if ordinal not in pods]
    surplus = sorted((ordinal for ordinal in pods if ordinal >= wanted.spec.replicas), reverse=True)
    if wanted.spec.pod_management_policy == "Parallel":
        gone = [ordinal for ordinal in surplus if not pods[ordinal].terminating]
        return (missing, gone) if missing or gone else ([], _outdated(wanted, pods, revision, now))
    for ordinal in desired:
        if ordinal not in pods:
            return [ordinal], []
        if pods[ordinal].terminating or not _available(wanted, pods[ordinal], now):
            return [], _stuck(pods[ordinal], ordinal, revision)
    if surplus:
        return [], [] if pods[surplus[0]].terminating else surplus[:1]
    return [], _outdated(wanted, pods, revision, now)


def _stuck(pod: Pod, ordinal: int, revision: str) -> list[int]:
    """A pod of an old template that never became ready would block the very update that mends it."""
    waiting = not pod.terminating and pod.metadata.labels.get(REVISION_LABEL) not in (None, revision) and not pod.ready
    return [ordinal] if waiting else []


def _outdated(wanted: StatefulSet, pods: dict[int, Pod], revision: str, now: float) -> list[int]:
    """The next pod to replace by one of the new template: the highest, when all others are available."""
    strategy = wanted.spec.update_strategy
    if strategy.type != "RollingUpdate":
        return []
    for ordinal in range(wanted.spec.replicas - 1, strategy.rolling_update.partition - 1, -1):
        pod = pods[ordinal]
        if pod.terminating:
            return []
        if pod.metadata.labels.get(REVISION_LABEL) != revision:
            return [ordinal]
        if not _available(wanted, pod, now):
            return []
    return []


def _available(wanted: StatefulSet, pod: Pod, now: float) -> bool:
    return pod.ready and ready_for(pod, now) >= wanted.spec.min_ready_seconds


def _pod(wanted: StatefulSet, ordinal: int, revision: str) -> dict[str, Any]:
    name = f"{wanted.metadata.name}-{ordinal}"
    labels = {NAME_LABEL: name, INDEX_LABEL: str(ordinal), REVISION_LABEL: revision}
    body = pod_from_template(wanted.spec.template, STATEFUL_SETS, wanted, name=name, labels=labels)
    body["spec"] |= {"hostname": name, "subdomain": wanted.spec.service_name}
    return body


def _status(wanted: StatefulSet, pods: list[Pod], revision: str, now: float) -> dict[str, Any]:
    updated = sum(pod.metadata.labels.get(REVISION_LABEL) == revision for pod in pods)
    complete = updated == len(pods) == wanted.spec.replicas and all(pod.ready for pod in pods)
    current = revision if complete or not wanted.status.current_revision else wanted.status.current_revision
    return {
        "observedGeneration": wanted.metadata.generation,
        "replicas": len(pods),
        "readyReplicas": sum(pod.ready for pod in pods),
        "availableReplicas": sum(_available(wanted, pod, now) for pod in pods),
        "currentReplicas": sum(pod.metadata.labels.get(REVISION_LABEL) == current for pod in pods),
        "updatedReplicas": updated,
        "currentRevision": current,
        "updateRevision": revision,
        "collisionCount": 0,
    }
