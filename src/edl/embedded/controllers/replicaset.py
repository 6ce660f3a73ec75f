"""ReplicaSet controller: keeps as many pods of one template as asked for."""

import math
import time
from collections.abc import Callable
from typing import Any

from edl.api.kubernetes import timestamp
from edl.api.kubernetes.pod_network import Pod
from edl.api.kubernetes.selectors import selector_matches
from edl.embedded.controllers.caches import Caches
from edl.embedded.controllers.pods import (
    claim,
    create_pods,
    delete_pods,
    pod_from_template,
    ready_for,
    write_status,
)
from edl.embedded.controllers.types import ReplicaSet
from edl.embedded.resources import REPLICA_SETS
from edl.kube.cache.objects import Key
from edl.kube.controllers.conditions import Condition, set_condition
from edl.kube.controllers.controller import Controller, Source, owner_key
from edl.kube.rest.errors import ApiError

_BURST = 500
_RETRY_SECONDS = 2.0
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


class ReplicaSets:
    def __init__(self, caches: Caches, *, clock: Callable[[], float] = time.time) -> None:
        self._client = caches.client
        self._sets = caches.of(REPLICA_SETS, ReplicaSet)
        self._pods = caches.pods
        self._clock = clock

    def controller(self) -> Controller:
        owners = owner_key("ReplicaSet", "apps")
        sources: list[Source[Any]] = [
            Source(self._sets),
            Source(self._pods, owners),
            Source(self._pods, self._adopters),
        ]
        return Controller("replicaset", sources, self.reconcile, workers=8)

    def _adopters(self, old: Pod | None, new: Pod | None) -> list[Key]:
        """A pod without a controller concerns every ReplicaSet that would take it."""
        if new is None or new.metadata.controller is not None or not new.metadata.labels:
            return []
        sets = self._sets.by("namespace", new.metadata.namespace)
        return [
            (one.metadata.namespace, one.metadata.name)
            for one in sets
            if selector_matches(one.spec.selector, new.metadata.labels)
        ]

    async def reconcile(self, key: Key) -> float | None:
        wanted = self._sets.get(key)
        if wanted is None:
            return None
        pods = await claim(self._client, self._pods, REPLICA_SETS, wanted, wanted.spec.selector)
        problem = ""
        if wanted.metadata.deletion_timestamp is None:
            try:
                await self._scale(wanted, [pod for pod in pods if pod.active])
            except ApiError as error:
                if not (error.is_forbidden or error.is_invalid):
                    raise
                problem = error.status.message
        now = self._clock()
        mine = [pod for pod in self._pods.by("owner", wanted.metadata.uid) if pod.active]
        await write_status(self._client, self._sets, wanted, _status(wanted, mine, problem, now))
        if problem:
            return _RETRY_SECONDS
        return _until_available(mine, wanted.spec.min_ready_seconds, now)

    async def _scale(self, wanted: ReplicaSet, pods: list[Pod]) -> None:
        missing = wanted.spec.replicas - len(pods)
        if missing > 0:
            body = pod_from_template(wanted.spec.template, REPLICA_SETS, wanted)
            await create_pods(self._client, self._pods, [body] * min(missing, _BURST))
        elif missing < 0:
            await delete_pods(self._client, self._pods, sorted(pods, key=cheapest_first)[:-missing])


def cheapest_first(pod: Pod) -> tuple[object, ...]:
    """Which of equal pods is missed least: unbound, pending, unready, marked as cheap, ready for less long, younger."""
    ready = pod.ready_condition
    since = timestamp.seconds(ready.last_transition_time) if ready and ready.last_transition_time else math.inf
    cost = pod.metadata.annotations.get(DELETION_COST, "0")
    return (
        bool(pod.spec.node_name),
        {"Pending": 0, "Unknown": 1}.get(pod.status.phase, 2),
        pod.ready,
        int(cost) if cost.lstrip("-").isdigit() else 0,
        -since,
        -pod.restarts,
        _reversed(pod.metadata.creation_timestamp or ""),
    )


def _reversed(text: str) -> tuple[int, ...]:
    return tuple(-ord(letter) for letter in text)


def _status(wanted: ReplicaSet, pods: list[Pod], problem: str, now: float) -> dict[str, object]:
    labels = (wanted.spec.template.get("metadata") or {}).get("labels") or {}
    labelled = [pod for pod in pods if labels.items() <= pod.metadata.labels.items()]
    return {
        "replicas": len(pods),
        "fullyLabeledReplicas": len(labelled),
        "readyReplicas": sum(pod.ready for pod in pods),
        "availableReplicas": sum(ready_for(pod, now) >= wanted.spec.min_ready_seconds for pod in pods if pod.ready),
        "observedGeneration": wanted.metadata.generation,
        "conditions": _conditions(wanted, problem, now),
    }


def _conditions(wanted: ReplicaSet, problem: str, now: float) -> list[Condition] | None:
    if not problem:
        return None
    return set_condition([], "ReplicaFailure", "True", reason="FailedCreate", message=problem, now=timestamp.text(now))


def _until_available(pods: list[Pod], min_ready_seconds: int, now: float) -> float | None:
    waits = [min_ready_seconds - ready_for(pod, now) for pod in pods if pod.ready]
    return min((wait for wait in waits if wait > 0), default=None)
