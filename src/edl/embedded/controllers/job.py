"""Job: pods that run to completion. One whose `managedBy` names another controller is left to that one.

Finished pods are counted exactly once: each is held by a finalizer until its uid stands in the status; then it is
released, and only then it moves from `uncountedTerminatedPods` into the counters. A crash between any two of these
steps is repaired by the next reconcile.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from edl.api.kubernetes.pod_network import Pod
from edl.embedded.controllers.caches import Caches
from edl.embedded.controllers.job_state import INDEX, TRACKING, Decision, decide
from edl.embedded.controllers.pods import create_pods, delete_pods, pod_from_template, write_status
from edl.embedded.controllers.types import Job
from edl.embedded.resources import JOBS, PODS
from edl.kube.cache.objects import Key, controller_of
from edl.kube.controllers.controller import Controller, Source, owner_key
from edl.kube.rest.errors import ApiError

OURS = ("", "kubernetes.io/job-controller")
_BURST = 500


class Jobs:
    """`backoff` is the delay after a first failure; it doubles up to ten minutes."""

    def __init__(self, caches: Caches, *, clock: Callable[[], float] = time.time, backoff: float = 10.0) -> None:
        self._client = caches.client
        self._jobs = caches.of(JOBS, Job)
        self._pods = caches.pods
        self._clock = clock
        self._backoff = backoff

    def controller(self) -> Controller:
        sources: list[Source[Any]] = [Source(self._jobs), Source(self._pods, owner_key("Job", "batch"))]
        return Controller("job", sources, self.reconcile, workers=8)

    async def reconcile(self, key: Key) -> float | None:
        job = self._jobs.get(key)
        await self._release(self._orphans(key, job))
        if job is None or job.spec.managed_by not in OURS:
            return None
        pods = [pod for pod in self._pods.by("owner", job.metadata.uid) if _controlled(pod, job)]
        now = self._clock()
        if job.metadata.deletion_timestamp is not None:
            await self._release(pods)
            return None
        decision = decide(job, pods, now=now, backoff=self._backoff)
        await write_status(self._client, self._jobs, job, decision.status)
        await self._release([pod for pod in pods if pod.metadata.uid in decision.release])
        await self._carry_out(job, decision)
        if decision.expired:
            await self._delete(job)
        return decision.requeue_after

    def _orphans(self, key: Key, job: Job | None) -> list[Pod]:
        """Pods of a Job of this name that is gone: nobody will count them any more."""
        held = [pod for pod in self._pods.by("namespace", key[0]) if TRACKING in pod.metadata.finalizers]
        owners = [(pod, controller_of(pod)) for pod in held]
        return [
            pod
            for pod, owner in owners
            if owner is not None and owner.name == key[1] and (job is None or owner.uid != job.metadata.uid)
        ]

    async def _carry_out(self, job: Job, decision: Decision) -> None:
        await delete_pods(self._client, self._pods, decision.delete)
        bodies = [_pod(job, index) for index in decision.create[:_BURST]]
        await create_pods(self._client, self._pods, bodies)

    async def _release(self, pods: list[Pod]) -> None:
        held = [pod for pod in pods if TRACKING in pod.metadata.finalizers]
        versions = await asyncio.gather(*(self._release_one(pod) for pod in held))
        if any(versions):
            await self._pods.wait_seen(str(max(versions)))

    async def _release_one(self, pod: Pod) -> int:
        finalizers = [name for name in pod.metadata.finalizers if name != TRACKING]
        body = {"metadata": {"uid": pod.metadata.uid, "finalizers": finalizers or None}}
        body["metadata"]["resourceVersion"] = pod.metadata.resource_version
        try:
            made = await self._client.patch(PODS, pod.metadata.name, body, namespace=pod.metadata.namespace)
        except ApiError as error:
            if error.is_not_found:
                return 0
            raise
        return int(made["metadata"]["resourceVersion"])

    async def _delete(self, job: Job) -> None:
        meta = job.metadata
        try:
            await self._client.delete(JOBS, meta.name, namespace=meta.namespace, uid=meta.uid, propagation="Foreground")
        except ApiError as error:
            if not (error.is_not_found or error.is_conflict):
                raise


def _controlled(pod: Pod, job: Job) -> bool:
    owner = controller_of(pod)
    return owner is not None and owner.uid == job.metadata.uid


def _pod(job: Job, index: int | None) -> dict[str, Any]:
    own = {
        "batch.kubernetes.io/controller-uid": job.metadata.uid,
        "batch.kubernetes.io/job-name": job.metadata.name,
        "controller-uid": job.metadata.uid,
        "job-name": job.metadata.name,
    }
    if index is None:
        body = pod_from_template(job.spec.template, JOBS, job, labels=own)
    else:
        body = pod_from_template(job.spec.template, JOBS, job, labels={**own, INDEX: str(index)})
        body["metadata"]["generateName"] = f"{job.metadata.name[:50]}-{index}-"
        body["metadata"]["annotations"][INDEX] = str(index)
        body["spec"].setdefault("hostname", f"{job.metadata.name}-{index}"[:63])
        for container in (*body["spec"].get("containers", ()), *body["spec"].get("initContainers", ())):
            container.setdefault("env", []).append({"name": "JOB_COMPLETION_INDEX", "value": str(index)})
    body["metadata"]["finalizers"].append(TRACKING)
    return body
