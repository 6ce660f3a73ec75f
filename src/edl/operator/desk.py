"""The operator's side of what a trainer asks for at the job service: its job's pods, and its plan as a JobResource.

The plan is written as the JobResource that has the job's name and belongs to it. One that is somebody else's is never
touched, and while an older one rules the job, the trainer is told so in place of being obeyed.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from edl.api import quantity
from edl.api.admission import check
from edl.api.annotations import LABEL_JOB, LABEL_KIND
from edl.api.core import Pod
from edl.api.easydl_plan import ruling
from edl.api.job_resource import API_VERSIONS, KIND, JobResource
from edl.api.pod import ResourceList
from edl.api.problem import errors
from edl.brain.tokens import mint
from edl.jobs.children import LABEL_UID
from edl.jobs.easydl_children import ATTEMPT
from edl.jobs.easydl_role import OOM
from edl.jobs.slots import INDEX, ROLE, read
from edl.kube.client import Client
from edl.kube.errors import ApiError
from edl.operator.book import Entry, JobBook
from edl.operator.caches import Caches
from edl.operator.job_service.desk import Data, Posted, no_plans
from edl.operator.job_service.record import JobRecord
from edl.operator.job_service.state import RefusedError
from edl.operator.plans import PlanBook
from edl.operator.resources import JOB_RESOURCES, RawJob
from edl.operator.settings import BrainSettings

REASON = "edl.dev/plan-reason"
TRIES = 5
SEEN_WITHIN = 5.0
TOKEN_SECONDS = 24 * 3600.0
_UNITS = {"cpu": 1.0, "memory": float(2**20), "ephemeral-storage": float(2**20)}


class OperatorDesk:
    def __init__(
        self,
        client: Client,
        caches: Caches,
        book: JobBook,
        *,
        gpu: str,
        brain: BrainSettings | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client, self._caches, self._book, self._gpu, self._clock = client, caches, book, gpu, clock
        self._brain = brain
        self._capacity: Data | None = None  # until the first cycle
        self._plans = PlanBook(caches.plans)

    def planned(self, capacity: Mapping[str, int]) -> None:
        """The scheduler has looked at the cluster: millicores, bytes and devices of its usable nodes."""
        gpu = capacity.get(self._gpu, 0)
        self._capacity = {"cpu": capacity.get("cpu", 0) / 1000, "memory": capacity.get("memory", 0) >> 20, "gpu": gpu}

    def capacity(self) -> Data | None:
        return self._capacity

    def brain(self, namespace: str, name: str) -> Data | None:
        """The token lasts a while; a trainer whose token has expired asks again."""
        if self._brain is None:
            return None
        token = mint(self._brain.key, f"{namespace}/{name}", self._clock() + TOKEN_SECONDS)
        return {"url": self._brain.url, "token": token, "ca": self._brain.ca}

    def spec(self, namespace: str, name: str, record: JobRecord) -> Data:
        """As the user wrote it."""
        entry = self._entry(namespace, name, record)
        raw = entry.raw if entry is not None else None
        return {"spec": raw.spec, "annotations": dict(raw.metadata.annotations)} if raw is not None else {}

    def pods(self, namespace: str, name: str, record: JobRecord) -> list[Data]:
        entry = self._entry(namespace, name, record)
        found = sorted(self._caches.pods_of(record.uid), key=lambda pod: pod.metadata.name)
        return [self._pod(pod, entry) for pod in found]

    def plan(self, namespace: str, name: str, record: JobRecord) -> Data | None:
        entry = self._entry(namespace, name, record)
        if entry is None or not entry.kind.planned or entry.job is None:
            return None
        rules = ruling(entry.job, self._plans.of(namespace, name))
        if rules is None:
            empty: Data = {"name": "", "generation": 0, "observed": 0, "spec": None, "followed": False}
            return {**empty, "granted": {}, "code": "", "reason": "", "updates": []}
        status = rules.status
        return {
            "name": rules.metadata.name,
            "generation": rules.metadata.generation,
            "observed": status.observed_generation or 0,
            "spec": _without_selector(msgspec.to_builtins(rules.spec)),
            "followed": any(one.type == "Followed" and one.status == "True" for one in status.conditions),
            "granted": status.granted or {},
            "code": status.code,
            "reason": status.reason,
            "updates": [
                {"name": one.name, "state": one.state, "pod": one.pod, "reason": one.reason} for one in status.updates
            ],
        }

    async def post(self, namespace: str, name: str, record: JobRecord, posted: Posted) -> Data:
        entry = self._entry(namespace, name, record)
        if entry is None or not entry.kind.planned or entry.job is None:
            raise no_plans(name)
        body = self._body(namespace, name, record, posted, entry)
        _refuse_bad(body)
        for _ in range(TRIES):
            rules = ruling(entry.job, self._plans.of(namespace, name))
            if rules is not None and rules.metadata.name != name:
                other = rules.metadata.name
                raise RefusedError(409, "ruled", f"JobResource {other} rules job {name}; delete it first", by=other)
            try:
                return await self._write(namespace, name, record, body)
            except ApiError as error:
                if not (error.is_conflict or error.is_already_exists or error.is_not_found):
                    raise
        raise RefusedError(503, "busy", f"JobResource {name} is being changed all the time", retry_after=1)

    def _entry(self, namespace: str, name: str, record: JobRecord) -> Entry | None:
        found = self._book.named(namespace, name)
        return next((entry for entry in found if entry.uid == record.uid), None)

    def _body(self, namespace: str, name: str, record: JobRecord, posted: Posted, entry: Entry) -> Data:
        labels = {LABEL_JOB: name, LABEL_KIND: entry.kind.name, LABEL_UID: record.uid}
        metadata: Data = {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": [record.owner]}
        if posted.reason:
            metadata["annotations"] = {REASON: posted.reason}
        spec = {**posted.spec, "selector": {"name": name}}
        return {"apiVersion": API_VERSIONS[0], "kind": KIND, "metadata": metadata, "spec": spec}

    async def _write(self, namespace: str, name: str, record: JobRecord, body: Data) -> Data:
        try:
            found = await self._client.get(JOB_RESOURCES, name, namespace=namespace, type=RawJob)
        except ApiError as error:
            if not error.is_not_found:
                raise
            made = await self._client.create(JOB_RESOURCES, body, namespace=namespace, type=RawJob)
            return await self._written(made, changed=True)
        _refuse_foreign(found, record, name)
        known = found.metadata.annotations.get(REASON)
        if found.spec == body["spec"] and known == body["metadata"].get("annotations", {}).get(REASON):
            return await self._written(found, changed=False)
        version = {"resourceVersion": found.metadata.resource_version}
        whole = {**body, "metadata": {**body["metadata"], **version}}
        made = await self._client.replace(JOB_RESOURCES, name, whole, namespace=namespace, type=RawJob)
        return await self._written(made, changed=True)

    async def _written(self, made: RawJob, *, changed: bool) -> Data:
        """Whoever asks next is told of this plan, not of the last one."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SEEN_WITHIN):
                await self._caches.plans.wait_seen(made.metadata.resource_version)
        return {"name": made.metadata.name, "generation": made.metadata.generation, "changed": changed}

    def _pod(self, pod: Pod, entry: Entry | None) -> Data:
        labels, seen = pod.metadata.labels, read(pod, self._clock())
        role, index = labels.get(ROLE, ""), labels.get(INDEX, "")
        ended = seen.state in ("failed", "lost", "succeeded")
        address = entry.kind.address(entry.raw.metadata.name, role, int(index)) if entry and index.isdigit() else ""
        return {
            "name": pod.metadata.name,
            "role": role,
            "index": int(index) if index.isdigit() else 0,
            "attempt": int(labels.get(ATTEMPT, "0")),
            "state": seen.state,
            "ready": seen.ready,
            "leaving": seen.leaving,
            "node": seen.node,
            "address": address,
            "resources": self._resources(pod),
            "started": seen.started,
            "exit": {"code": seen.exit_code, "reason": seen.reason, "message": seen.message} if ended else None,
            "oom": ended and seen.reason == OOM,
            "reason": "" if ended else seen.reason,
        }

    def _resources(self, pod: Pod) -> Data:
        first = pod.spec.containers[0].resources if pod.spec.containers else None
        given: ResourceList = {**first.limits, **first.requests} if first is not None else {}
        names = {"cpu": "cpu", "memory": "memory", "disk": "ephemeral-storage", "gpu": self._gpu}
        return {
            ours: quantity.nano(given[name]) / 1e9 / _UNITS.get(name, 1.0)
            for ours, name in names.items()
            if name in given
        }


def _refuse_bad(body: Data) -> None:
    checked = check(body)
    if not isinstance(checked.object, JobResource):
        problems = [str(problem) for problem in errors(checked.problems)]
        raise RefusedError(400, "bad-plan", "; ".join(problems)[:2000], problems=problems)


def _refuse_foreign(found: RawJob, record: JobRecord, name: str) -> None:
    owner = found.metadata.controller
    if owner is not None and owner.uid == record.uid and found.metadata.deletion_timestamp is None:
        return
    if owner is not None and (owner.kind, owner.name) == (record.owner.get("kind"), record.owner.get("name")):
        raise RefusedError(503, "leftover", f"JobResource {name} of an earlier job is being removed", retry_after=1)
    words = f"JobResource {name} was not made for this job by its trainer, and is left alone; delete it, or edit it"
    raise RefusedError(409, "name-taken", words)


def _without_selector(spec: Any) -> Data:
    return {field: value for field, value in spec.items() if field != "selector"}
