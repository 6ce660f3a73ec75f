"""Writes pod statuses to the API server: only what changed, and as seldom as possible.

A pod that starts quickly is written once, as running. A status is also written again when the server's differs from
ours (somebody else changed it), and a pod that was deleted is released once its last state is recorded.
"""

import logging
from typing import Any

import msgspec

from edl.api.kubernetes.meta import Condition
from edl.embedded.node.pod.status import Status, status_of
from edl.embedded.node.pod.types import Pod
from edl.embedded.node.pod.worker import PodWorker
from edl.embedded.resources import PODS
from edl.kube.rest.client import Client
from edl.kube.rest.errors import ApiError

log = logging.getLogger(__name__)

_PATIENCE = 1.0
"""A pod that is being created is not worth a write before so many seconds."""


class StatusWriter:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._versions: dict[str, int] = {}

    async def report(self, worker: PodWorker) -> float | None:
        """Write the status if it changed; the seconds after which a write that was put off is due."""
        status = status_of(worker.pod, worker.records, worker.state(), worker.known)
        wait = self._wait(worker, status)
        if wait > 0:
            return wait
        if status != worker.written or not self._server_agrees(worker, status):
            if not await self._write(worker.pod, status):
                return None
            worker.written = status
            worker.known = {one["type"]: msgspec.convert(_said(one), Condition) for one in _kept(status)}
        return None

    def _wait(self, worker: PodWorker, status: Status) -> float:
        creating = status["phase"] == "Pending" and not worker.ending and not worker.written
        if not creating or any(record.problem for record in worker.records.values()):
            return 0.0
        return worker.seen_at + _PATIENCE - status_time(worker)

    def _server_agrees(self, worker: PodWorker, status: Status) -> bool:
        pod = worker.pod
        if int(pod.metadata.resource_version) < self._versions.get(worker.uid, 0):
            return True  # the cache has not seen our own write yet
        theirs = {condition.type: condition.status for condition in pod.status.conditions}
        ours = {condition["type"]: condition.get("status") for condition in status["conditions"]}  # None: it is to go
        return pod.status.phase == status["phase"] and all(theirs.get(kind) == state for kind, state in ours.items())

    async def _write(self, pod: Pod, status: Status) -> bool:
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        name, namespace = pod.metadata.name, pod.metadata.namespace
        try:
            answer = await self._client.patch(
                PODS, name, patch, kind="strategic", namespace=namespace, subresource="status"
            )
        except ApiError as error:
            if error.is_not_found or error.is_conflict:  # gone, or another pod of the same name
                return False
            raise
        self._versions[pod.metadata.uid] = int(answer["metadata"]["resourceVersion"])
        return True

    async def delete(self, pod: Pod) -> None:
        """Nothing of it runs any more: the object may go."""
        self._versions.pop(pod.metadata.uid, None)
        meta = pod.metadata
        try:
            await self._client.delete(PODS, meta.name, namespace=meta.namespace, uid=meta.uid, grace=0)
        except ApiError as error:
            if not (error.is_not_found or error.is_conflict):
                raise


def _kept(status: Status) -> list[dict[str, Any]]:
    return [condition for condition in status["conditions"] if "status" in condition]


def status_time(worker: PodWorker) -> float:
    return worker.state().now


def _said(condition: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in condition.items() if value is not None}
