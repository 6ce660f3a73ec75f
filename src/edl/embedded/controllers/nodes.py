"""Node life cycle: a node that stops renewing its lease is lost; what cannot stay on a lost node is evicted.

A lease's age is counted from when *we* saw it renewed, on our own clock, and only while we were watching. After we
start, every node has a whole grace period, and a pause of this process takes none of it: a cluster that was down, or a
machine that slept, is not a cluster whose nodes are lost.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from edl.api.kubernetes import timestamp
from edl.api.kubernetes.meta import ObjectMeta, Wire
from edl.api.kubernetes.pod_network import Pod
from edl.embedded.controllers.caches import Caches
from edl.embedded.controllers.taints import as_object, seconds_left, taints_of
from edl.embedded.controllers.types import Node
from edl.embedded.resources import LEASES, NODES, PODS
from edl.kube.cache.objects import Key
from edl.kube.controllers.controller import Controller, Source
from edl.kube.rest.errors import ApiError

log = logging.getLogger(__name__)

LEASE_NAMESPACE = "kube-node-lease"
GRACE_SECONDS = 40.0
_WATCHES_PER_GRACE = 8


class LeaseSpec(Wire, frozen=True):
    renew_time: str | None = None


class Lease(Wire, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()


class WatchedTime:
    """Seconds that were watched: of the time between two readings at most `longest` counts. Pure."""

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._last: float | None = None
        self._total = 0.0

    def at(self, now: float) -> float:
        if self._last is not None:
            self._total += min(now - self._last, self._longest)
        self._last = now
        return self._total


class NodeLifecycle:
    """`grace`: seconds without a renewal after which a node is lost."""

    def __init__(self, caches: Caches, *, grace: float = GRACE_SECONDS, clock: Callable[[], float] = time.time) -> None:
        self._client = caches.client
        self._nodes = caches.of(NODES, Node)
        self._leases = caches.of(LEASES, Lease)
        self._pods = caches.pods
        self._grace = grace
        self._clock = clock
        self._renewals: dict[str, tuple[str | None, float]] = {}
        self._watch_seconds = grace / _WATCHES_PER_GRACE
        self._watched = WatchedTime(2 * self._watch_seconds)

    def controller(self) -> Controller:
        sources: list[Source[Any]] = [
            Source(self._nodes),
            Source(self._leases, _node_of_lease),
            Source(self._pods, _node_of_new_pod),
        ]
        return Controller("node-lifecycle", sources, self.reconcile)

    async def reconcile(self, key: Key) -> float | None:
        node = self._nodes.get(key)
        if node is None:
            self._renewals.pop(key[1], None)
            await self._collect_orphans(key[1])
            return None
        left = self._grace_left(node)
        if left <= 0 and node.ready_status != "Unknown":
            await self._mark_lost(node)
            return 0.0
        await self._taint(node)
        evict = await self._evict(node)
        watch = min(left, self._watch_seconds) if left > 0 else None
        waits = [wait for wait in (watch, evict) if wait is not None]
        return min(waits) if waits else None

    def _grace_left(self, node: Node) -> float:
        """Seconds until the node counts as lost."""
        name, now = node.metadata.name, self._watched.at(asyncio.get_running_loop().time())
        lease = self._leases.get((LEASE_NAMESPACE, name))
        renewed = lease.spec.renew_time if lease is not None else None
        known = self._renewals.get(name)
        if known is None or known[0] != renewed:
            self._renewals[name] = known = (renewed, now)
        return known[1] + self._grace - now

    async def _mark_lost(self, node: Node) -> None:
        log.warning("node %s has not been heard of for %.0f s: it is lost", node.metadata.name, self._grace)
        now = timestamp.text(self._clock())
        why = {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
        condition = {"type": "Ready", "status": "Unknown", **why, "lastTransitionTime": now}
        patch = {"metadata": {"uid": node.metadata.uid}, "status": {"conditions": [condition]}}
        await self._patch_node(node, patch, kind="strategic", subresource="status")
        for pod in self._pods.by("node", node.metadata.name):
            if pod.ready:
                await self._patch_pod(pod, {"type": "Ready", "status": "False", "reason": "NodeNotReady"})

    async def _taint(self, node: Node) -> None:
        wanted = taints_of(node, timestamp.text(self._clock()))
        if wanted != [as_object(one) for one in node.spec.taints]:
            meta = {"uid": node.metadata.uid, "resourceVersion": node.metadata.resource_version}
            await self._patch_node(node, {"metadata": meta, "spec": {"taints": wanted or None}})

    async def _patch_node(self, node: Node, patch: dict[str, Any], **how: Any) -> None:
        made = await self._client.patch(NODES, node.metadata.name, patch, **how)
        await self._nodes.wait_seen(made["metadata"]["resourceVersion"])

    async def _evict(self, node: Node) -> float | None:
        """Delete the pods whose time on this node is over; the seconds until the next one's is."""
        fresh = self._nodes.get(("", node.metadata.name)) or node
        if not any(taint.effect == "NoExecute" for taint in fresh.spec.taints):
            return None
        now, next_wait = self._clock(), None
        since = max(
            timestamp.seconds(taint.time_added) if taint.time_added else now
            for taint in fresh.spec.taints
            if taint.effect == "NoExecute"
        )
        for pod in self._pods.by("node", node.metadata.name):
            allowed = seconds_left(pod.spec.tolerations, fresh.spec.taints)
            if allowed is None or not pod.active:
                continue
            wait = since + allowed - now
            if wait <= 0:
                await self._evict_one(pod)
            else:
                next_wait = wait if next_wait is None else min(next_wait, wait)
        return next_wait

    async def _evict_one(self, pod: Pod) -> None:
        log.info("pod %s/%s is evicted from node %s", pod.metadata.namespace, pod.metadata.name, pod.spec.node_name)
        message = "Taint manager: deleting due to NoExecute taint"
        await self._patch_pod(pod, _disrupted("DeletionByTaintManager", message))
        await self._delete_pod(pod, grace=None)

    async def _collect_orphans(self, name: str) -> None:
        """Pods of a node that no longer exists: nobody will ever report on them again."""
        for pod in self._pods.by("node", name):
            if await self._node_exists(name):
                return
            if pod.finished:
                await self._delete_pod(pod, grace=0)
                continue
            condition = _disrupted("DeletionByPodGC", "PodGC: node no longer exists")
            await self._patch_pod(pod, condition, phase="Failed")
            await self._delete_pod(pod, grace=0)

    async def _node_exists(self, name: str) -> bool:
        try:
            await self._client.get(NODES, name)
        except ApiError as error:
            if error.is_not_found:
                return False
            raise
        return True

    async def _patch_pod(self, pod: Pod, condition: dict[str, Any], **more: Any) -> None:
        dated = {**condition, "lastTransitionTime": timestamp.text(self._clock())}
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [dated], **more}}
        meta = pod.metadata
        try:
            await self._client.patch(
                PODS, meta.name, patch, kind="strategic", namespace=meta.namespace, subresource="status"
            )
        except ApiError as error:
            if not (error.is_not_found or error.is_conflict):
                raise

    async def _delete_pod(self, pod: Pod, *, grace: int | None) -> None:
        meta = pod.metadata
        try:
            await self._client.delete(PODS, meta.name, namespace=meta.namespace, uid=meta.uid, grace=grace)
        except ApiError as error:
            if not (error.is_not_found or error.is_conflict):
                raise


def _disrupted(reason: str, message: str) -> dict[str, Any]:
    return {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}


def _node_of_lease(old: Lease | None, new: Lease | None) -> Iterable[Key]:
    """A renewal needs no work unless the node was lost; the renewal itself is noted when the grace is computed."""
    lease = new if new is not None else old
    if lease is None or lease.metadata.namespace != LEASE_NAMESPACE:
        return ()
    return (("", lease.metadata.name),)


def _node_of_new_pod(old: Pod | None, new: Pod | None) -> Iterable[Key]:
    """A pod that was bound, or is about to go: its node may be lost, or not exist."""
    if new is None or not new.spec.node_name:
        return ()
    news = old is None or old.spec.node_name != new.spec.node_name or old.terminating != new.terminating
    return (("", new.spec.node_name),) if news else ()
