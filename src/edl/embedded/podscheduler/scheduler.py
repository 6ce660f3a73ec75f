"""Binds pods to nodes: a cycle over the waiting pods whenever something changed that could help them.

A decision counts at once in our own view (it is assumed), so that the next pod does not take the same capacity; it is
forgotten when the server refuses it. Pods wait in the order of their priority, then of their age. No preemption.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Literal

from edl.api.kubernetes import timestamp
from edl.api.kubernetes.core import Namespace, Node, Pod
from edl.embedded.pod_requests import resize_pending
from edl.embedded.podscheduler.decide import decide
from edl.embedded.podscheduler.state import ClusterState
from edl.embedded.resources import NAMESPACES, NODES, PODS
from edl.embedded.tasks import background
from edl.kube.cache.informer import Informer
from edl.kube.controllers.recorder import EventRecorder, Reference
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError, KubeError

log = logging.getLogger(__name__)

NAME = "default-scheduler"
_AT_ONCE = 32
_RETRY_SECONDS = 1.0


class PodScheduler:
    """`name` is the spec.schedulerName that it serves."""

    def __init__(self, client: Client, *, name: str = NAME, clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._name = name
        self._clock = clock
        self._pods: Informer[Pod] = Informer(client, PODS, Pod)
        self._nodes: Informer[Node] = Informer(client, NODES, Node)
        self._namespaces: Informer[Namespace] = Informer(client, NAMESPACES, Namespace)
        self._waiting: dict[str, Pod] = {}
        self._bound: dict[str, Pod] = {}
        self._assumed: dict[str, str] = {}
        self._unschedulable: dict[str, str] = {}
        """Why a pod could not be placed, until something changes that could help."""
        self._dirty = asyncio.Event()
        self._recorder = EventRecorder(client, controller=name, instance=name)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            self._pods.add_handler("podscheduler", self._pod_changed, lambda _: self._dirty.set())
            self._nodes.add_handler("podscheduler", self._node_changed, lambda _: self._dirty.set())
            informers = (self._pods, self._nodes, self._namespaces)
            await stack.enter_async_context(background(*(one.run() for one in informers), self._recorder.run()))
            await asyncio.gather(*(one.wait_synced() for one in informers))
            await stack.enter_async_context(background(self._follow()))
            yield

    # Changes of pods and nodes

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> list[str]:
        pod = new if new is not None else old
        assert pod is not None
        uid = pod.metadata.uid
        if new is None or new.finished:
            self._waiting.pop(uid, None)
            self._unschedulable.pop(uid, None)
            self._assumed.pop(uid, None)
            return self._capacity_freed() if self._bound.pop(uid, None) is not None else []
        if new.spec.node_name:
            self._waiting.pop(uid, None)
            self._unschedulable.pop(uid, None)
            self._assumed.pop(uid, None)
            known, self._bound[uid] = self._bound.get(uid), new
            return self._capacity_freed() if known is not None and _shrunk(known, new) else []
        return self._pod_waits(old, new)

    def _pod_waits(self, old: Pod | None, new: Pod) -> list[str]:
        uid = new.metadata.uid
        if not self._is_ours(new):
            self._waiting.pop(uid, None)
            return []
        self._waiting[uid] = new
        if old is None or old.spec != new.spec or old.metadata.labels != new.metadata.labels:
            self._unschedulable.pop(uid, None)
            return [uid]
        return []

    def _node_changed(self, old: Node | None, new: Node | None) -> list[str]:
        if old is not None and new is not None and _scheduling_facts(old) == _scheduling_facts(new):
            return []
        return self._capacity_freed()

    def _capacity_freed(self) -> list[str]:
        self._unschedulable.clear()
        return ["capacity"] if self._waiting else []

    def _is_ours(self, pod: Pod) -> bool:
        leaving = pod.metadata.deletion_timestamp is not None
        return (pod.spec.scheduler_name or NAME) == self._name and not pod.spec.scheduling_gates and not leaving

    # Cycles

    async def _follow(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            try:
                await self._cycle()
            except KubeError as error:
                log.warning("a scheduling cycle was not completed: %s", error)
                asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._dirty.set)
            except Exception:
                log.exception("a scheduling cycle failed")
                asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._dirty.set)

    async def _cycle(self) -> None:
        waiting = [
            pod for uid, pod in self._waiting.items() if uid not in self._unschedulable and uid not in self._assumed
        ]
        if not waiting:
            return
        state = ClusterState(self._nodes.all(), self._placed())
        namespaces = {one.metadata.name: one.metadata.labels for one in self._namespaces.all()}
        limit = asyncio.Semaphore(_AT_ONCE)
        async with asyncio.TaskGroup() as group:
            for number, pod in enumerate(sorted(waiting, key=_queue_order)):
                outcome = decide(pod, state, namespaces)
                if outcome.node:
                    state.place(pod, outcome.node)
                    self._assumed[pod.metadata.uid] = outcome.node
                    group.create_task(self._bind(pod, outcome.node, limit))
                else:
                    self._unschedulable[pod.metadata.uid] = outcome.message
                    group.create_task(self._report_unschedulable(pod, outcome.message, limit))
                if number % _AT_ONCE == 0:
                    await asyncio.sleep(0)  # a crowd of pods must not hold up everything else in this process

    def _placed(self) -> list[tuple[Pod, str]]:
        assumed = [(self._waiting[uid], node) for uid, node in self._assumed.items() if uid in self._waiting]
        return [*((pod, pod.spec.node_name) for pod in self._bound.values()), *assumed]

    async def _bind(self, pod: Pod, node: str, limit: asyncio.Semaphore) -> None:
        meta = pod.metadata
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "target": target,
        }
        try:
            async with limit:
                await self._client.create(PODS, body, name=meta.name, namespace=meta.namespace, subresource="binding")
        except KubeError as error:
            self._assumed.pop(meta.uid, None)
            if isinstance(error, ApiError) and (error.is_not_found or error.is_conflict):
                return  # it is gone, or somebody else has bound it: the cache will show it
            log.warning("%s/%s could not be bound to %s: %s", meta.namespace, meta.name, node, error)
            asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._dirty.set)
            return
        self._emit(pod, "Normal", "Scheduled", f"Successfully assigned {meta.namespace}/{meta.name} to {node}")

    async def _report_unschedulable(self, pod: Pod, message: str, limit: asyncio.Semaphore) -> None:
        known = pod.status.condition("PodScheduled")
        if known is not None and known.status == "False" and known.message == message:
            return
        self._emit(pod, "Warning", "FailedScheduling", message)
        same = known is not None and known.status == "False" and known.last_transition_time
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": same or timestamp.text(self._clock()),
        }
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
        meta = pod.metadata
        try:
            async with limit:
                await self._client.patch(
                    PODS, meta.name, patch, kind="strategic", namespace=meta.namespace, subresource="status"
                )
        except KubeError as error:
            if not (isinstance(error, ApiError) and (error.is_not_found or error.is_conflict)):
                log.warning("%s/%s: its condition was not written: %s", meta.namespace, meta.name, error)

    def _emit(self, pod: Pod, kind: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        self._recorder.record(Reference.to(PODS, pod), reason, message, kind=kind, action="Scheduling")


def _queue_order(pod: Pod) -> tuple[int, str, str]:
    return -(pod.spec.priority or 0), pod.metadata.creation_timestamp or "", pod.metadata.name


def _scheduling_facts(node: Node) -> tuple[object, ...]:
    """The part of a node that decides which pods may run on it."""
    return node.metadata.labels, node.spec, node.status.allocatable, node.ready


def _shrunk(old: Pod, new: Pod) -> bool:
    """It was resized: there may be more free capacity than before."""
    return (
        old.spec.containers != new.spec.containers
        or old.status.container_statuses != new.status.container_statuses
        or resize_pending(old) != resize_pending(new)
    )
